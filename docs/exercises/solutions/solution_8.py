"""Exercise 8, solved: optimism explores better than chance."""

# Every reward is 0 until the goal is reached for the first time. A random walk does not get there, and greedy actions
# of a table of zeros repeat one move. Values that begin at the largest return fall wherever the agent has been, so
# that it goes on to where it has not. Nothing is random here, so that a large learning rate does no harm.
settings = {
    "lr": 0.5,
    "initial_value": 1.0,
    "epsilon_greedy": 0.1,
    "epsilon_decay": 0.99,
}
