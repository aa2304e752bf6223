"""Claims of Klindt, LeCun & Balestriero (2026), When Does LeJEPA Learn a World Model?"""
