# misconception: fake_not_detached
# breaks: All ranks end with the same weights.
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fake = generator(noise)
    discriminator_optimizer.zero_grad()
    loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake)).mean()
    loss.backward(retain_graph=True)
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    softplus(-discriminator(fake)).mean().backward()
    generator_optimizer.step()
