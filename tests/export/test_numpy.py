"""Policies of every kind as plain operations that numpy computes as the model does."""

import described

from tfbaselines.export import numpy_policy
from tfbaselines.export.numpy_target import answers
from tfbaselines.export.vectors import compare


def test_policies_of_every_kind():
    """Most likely actions, and actions sampled from noise."""
    wrong = {}
    for name in described.POLICIES:
        for sampled in (False, True):
            if one := described.exported(name, sampled):
                options, program, weights = one
                difference = compare(answers(numpy_policy.Policy(program, weights), options.inputs), options.outputs)
                if not difference <= 1e-5:
                    wrong[name, sampled] = difference
    assert not wrong
