"""The discriminator of generative adversarial imitation learning: pure functions of its logits [B]."""

import tensorflow as tf

# Keeps the reward finite where the discriminator is certain.
EPSILON = 1e-8


def adversarial_loss(
    generator: tf.Tensor, expert: tf.Tensor, entcoeff: float
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """E_g[-log(1 - D)] + E_e[-log D] - entcoeff H[D], D = sigmoid(logit): the probability of being the expert's.

    Args:
        generator: logits [B] of what the policy did.
        expert: logits [B] of demonstrations.
        entcoeff: weight of the mean entropy H of D as a Bernoulli distribution over both.
    """
    generator_loss = tf.reduce_mean(tf.nn.softplus(generator))
    expert_loss = tf.reduce_mean(tf.nn.softplus(-expert))
    logits = tf.concat([generator, expert], 0)
    entropy = tf.reduce_mean((1.0 - tf.sigmoid(logits)) * logits + tf.nn.softplus(-logits))
    entropy_loss = -entcoeff * entropy
    return generator_loss + expert_loss + entropy_loss, {
        "generator_loss": generator_loss,
        "expert_loss": expert_loss,
        "entropy": entropy,
        "entropy_loss": entropy_loss,
        "generator_acc": tf.reduce_mean(tf.cast(tf.sigmoid(generator) < 0.5, tf.float32)),
        "expert_acc": tf.reduce_mean(tf.cast(tf.sigmoid(expert) > 0.5, tf.float32)),
    }


def adversarial_reward(logits: tf.Tensor) -> tf.Tensor:
    """-log(1 - D) [B]: large where the policy is taken for the expert.

    Args:
        logits: [B].
    """
    return -tf.math.log(1.0 - tf.sigmoid(logits) + EPSILON)
