# misconception: none
# breaks: One step of both models.
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fake = generator(noise)
    discriminator_optimizer.zero_grad()
    loss = softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()
    loss.backward()
    discriminator_optimizer.step()
