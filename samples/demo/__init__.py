"""`make demo`: an agent explores AutoGen's own code while its context stays small.

run        the story, from top to bottom
recorder   sits between agent and model and writes down what every call costs
script     the decisions of the model when there is no key; the tools and what they find are real
continued  the second process, which goes on from the file of the first
display    what is printed
chart      what is drawn
"""
