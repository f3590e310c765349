"""Largest values of sizes and counts, which arguments are declared with: generous, but nothing at them hangs.

tfbaselines/files.py checks that several of them together fit into the memory, where arrays are about to be allocated.
"""

# Whole numbers, unless the argument is declared with another limit.
WHOLE = 10**12
# Environment steps of a run, and between two events.
TIMESTEPS = 1e15
SEED = 2**32 - 1
# Sizes of one call of the compiled update: steps of a rollout, rows of a batch, gradient steps.
STEPS = 10**8
ROWS = 10**7
COUNT = 10**6
# Repetitions over the same rows.
PASSES = 1000
# Parts of a network.
LAYERS = 100
UNITS = 2**14
FILTERS = 2**12
# Numbers in a list, such as the sizes of layers.
LONGEST_LIST = 100
