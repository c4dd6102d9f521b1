# misconception: two_backwards
# breaks: All ranks end with the same weights.
# breaks: Write it so that it is right
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    fake = generator(noise)
    discriminator_optimizer.zero_grad()
    real_scores, fake_scores = discriminator(real), discriminator(fake.detach())
    softplus(-real_scores).mean().backward()
    softplus(fake_scores).mean().backward()
    discriminator_optimizer.step()
    generator_optimizer.zero_grad()
    softplus(-discriminator(fake)).mean().backward()
    generator_optimizer.step()
