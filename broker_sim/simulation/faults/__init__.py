"""What goes wrong, as data: the ``kinds`` of faults and those of ``disks``, lists that a seed draws (``swarm``), ``plans`` of users."""
