"""Export and import of a user's data as JSON Lines in ASCII: each line is a row, with fields named like columns.

    {"format":"memory-context","version":2,"user":"alice",…}       header
    {"record":"item","memory_key":"run_shell_k3f9x2",…}            row
    {"record":"end","records":{"item":1}}                          missing if truncated

NUL and lone surrogates are U+001A and four hexadecimal digits: readers refuse JSON's escapes of them.
"""

FORMAT = "memory-context"
FORMAT_VERSION = 2  # 1 had no origins
END = "end"
