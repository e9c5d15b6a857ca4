"""Export and import of a user's data.

lines     the file format
records   models of its lines
exporter  from one snapshot, in bounded memory
importer  validated before anything is stored
"""
