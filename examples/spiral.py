"""Train on the spiral world and read the certificate: the ten lines of the README."""

import isojepa as ij

world = ij.data.World(ij.data.OrnsteinUhlenbeck(dim=2, rho=0.95), ij.data.Spiral())
encoder = ij.encoders.MLP(in_dim=2, out_dim=2)
objective = ij.objectives.LeJEPA()
run = ij.fit(encoder, world, objective, seed=0)
certificate = ij.certify(encoder, world, seed=1)
print(certificate)
