"""The web connector: pages that an agent reads as trees of elements and acts on, behind a boundary of the network."""
