"""Starts a cloud, plays the story, and says how long each chapter took."""

import sys
import time

from tests.operations.cloud.services import running_cloud
from tests.operations.cloud.story import Story


def main() -> None:
    """Print each chapter with the seconds since the beginning."""
    began_s = time.monotonic()

    def tell(chapter: str) -> None:
        print(f"{time.monotonic() - began_s:6.0f} s  {chapter}", flush=True)

    tell("the cloud starts")
    with running_cloud() as cloud:
        try:
            Story(cloud, tell).play()
        except BaseException:
            if "--keep" in sys.argv:
                print(f"{sys.exc_info()[1]!r}\n{cloud.folder} {cloud.environment}", flush=True)
                time.sleep(600)
            raise
    tell("done")


if __name__ == "__main__":
    main()
