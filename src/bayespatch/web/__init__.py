"""The consulting page and the REST interface of a case base, for users and programs.

`app` assembles the parts; `pages` and `api` have the routes; `access` identifies users, `guard` rejects invalid
requests early; `service` has the case base, the loaded model and the `queue` in front of it.
"""

try:
    import argon2 as argon2
    import fastapi as fastapi
    import jinja2 as jinja2
    import joserfc as joserfc
    import pyotp as pyotp
    import uvicorn as uvicorn
    import zxcvbn as zxcvbn
except ImportError as error:
    raise ImportError('the consulting page needs FastAPI and uvicorn: pip install "bayespatch[web]"') from error

from bayespatch.web.app import create_app
from bayespatch.web.settings import Settings

__all__ = ["Settings", "create_app"]
