"""The application object that WSGI servers import: ``placement.wsgi.api:application``."""

from placement.wsgi import init_application

application = init_application()
