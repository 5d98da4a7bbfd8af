"""A grammar as a constraint on what a model may write: the parts that ``readings.structural_tag`` is made of.

formats    regular expressions over texts, schemas and free text, and what they are as JSON
graph      places and steps between them, made one expression
places     where the walk is, and what it knows there
walk       the steps over a grammar's nodes
fields     names, keys, headers           values      the calls' values
notations  values that are no JSON        triggers    what begins a call in free text
"""
