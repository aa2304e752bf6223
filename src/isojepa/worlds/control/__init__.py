"""Control: policies that drive dm_control's reacher, and the episodes that they leave."""
