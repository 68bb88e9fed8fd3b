"""Commands of ``openstack`` for what operators ask: plug-ins beside those of osc-placement."""
