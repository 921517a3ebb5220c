#!/bin/sh
# Prints the path of a Chromium for the tests of the report page. With --install, root gets one from the distribution.
set -eu

find_browser() {
    if [ -n "${METAOP_TEST_BROWSER:-}" ]; then
        command -v "$METAOP_TEST_BROWSER" && return
        echo "METAOP_TEST_BROWSER is '$METAOP_TEST_BROWSER', which is no program" >&2
        exit 1
    fi
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return
    done
    return 1
}

find_browser && exit
if [ "${1:-}" = --install ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
    } >&2 || true
    find_browser && exit
fi
echo "The tests of the report page need Chromium or Chrome: install it (Debian: apt-get install chromium;" \
    "Ubuntu's package of that name is a snap, there take Google's google-chrome-stable)," \
    "or let METAOP_TEST_BROWSER be the path of one." >&2
exit 1
