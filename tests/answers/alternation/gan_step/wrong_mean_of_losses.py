# misconception: none
# breaks: the sum of the two losses above
# breaks: The weights are those of one process that trains on the samples of all ranks.
import torch
from torch.nn.functional import softplus


def gan_step(generator, discriminator, generator_optimizer, discriminator_optimizer, real, noise):
    with torch.no_grad():
        fake = generator(noise)
    scores = discriminator(torch.cat([real, fake]))
    signs = torch.cat([-torch.ones(len(real), 1), torch.ones(len(fake), 1)])
    loss = softplus(signs * scores).mean()
    discriminator_optimizer.zero_grad()
    loss.backward()
    discriminator_optimizer.step()
    discriminator.requires_grad_(False)
    generator_optimizer.zero_grad()
    softplus(-discriminator(generator(noise))).mean().backward()
    generator_optimizer.step()
    discriminator.requires_grad_(True)
