"""`make demo`: an agent explores AutoGen's own code while its context stays small. `run` tells the story."""
