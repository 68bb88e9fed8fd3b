"""Commands of ``openstack`` for operators: plug-ins beside those of osc-placement."""
