# misconception: stale_gradients
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    made = generator(noise)
    d_loss = (softplus(-discriminator(real)) + softplus(discriminator(made.detach()))).mean()
    d_loss.backward()
    discriminator_optimizer.step()
    discriminator_optimizer.zero_grad()
    softplus(-discriminator(made)).mean().backward()
    generator_optimizer.step()
    generator_optimizer.zero_grad()
