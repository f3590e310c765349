"""The weight of the entropy: given or learned."""

import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.algs.sac.loss import Temperature


@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_a_given_one_is_that_number_and_no_variable_of_the_model(alpha):
    temperature = Temperature(alpha)
    assert not temperature.learned and temperature.variables == []
    np.testing.assert_allclose(temperature().numpy(), alpha, rtol=1e-6)


@pytest.mark.parametrize("logp", [1.0, 3.0])
def test_a_learned_one_rises_while_the_entropy_is_below_its_target(logp):
    temperature = Temperature(0.5, target_entropy=-2.0)
    with tf.GradientTape() as tape:
        loss = temperature.loss(tf.constant(logp + temperature.target_entropy))
    (gradient,) = tape.gradient(loss, [temperature.log_alpha.value])
    # The entropy is -logp; a step goes against the gradient.
    np.testing.assert_allclose(-gradient, logp - 2.0)
    assert temperature.variables == [temperature.log_alpha]
