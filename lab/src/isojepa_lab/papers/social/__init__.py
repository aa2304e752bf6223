"""Studies of "Social-JEPA: Emergent Geometric Isomorphism in Independently Trained World Models"."""
