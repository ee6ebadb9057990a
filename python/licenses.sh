#!/usr/bin/env bash
# Prints the licenses of everything that the wheel's native module has compiled in: the packages,
# and each of their texts once. `./licenses.sh >THIRD-PARTY-LICENSES` after a change of Cargo.lock.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
target=x86_64-unknown-linux-gnu
packages=$(cargo tree --locked -e normal --target "$target" --prefix none --format '{p}|{l}' |
    sed 's/ (.*)|/|/; s/ (\*)$//; s/ v\([^ |]*\)|/-\1|/' | LC_ALL=C sort -u |
    grep -v '^$\|^millstream\|^gdeflate')
echo "The native module of the Python package millstream contains these packages:"
echo
echo "$packages" | sed 's/^/    /; s/|/: /'
declare -A users
texts=()
while IFS='|' read -r package _; do
    source=$(find "$sources" -mindepth 2 -maxdepth 2 -name "$package" | head -n 1)
    [[ -n $source ]] || { echo "no source of $package" >&2; exit 1; }
    while IFS= read -r text; do
        hash=$(sha256sum <"$text")
        [[ -n ${users[$hash]:-} ]] || texts+=("$hash|$text")
        users[$hash]+=" $package"
    done < <(find "$source" -maxdepth 3 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' \
        -o -iname 'copyright*' -o -iname 'notice*' -o -iname 'unlicense*' \) | LC_ALL=C sort)
done <<<"$packages"
for text in "${texts[@]}"; do
    printf '\n%s\n' "$(printf '%0.s-' {1..80})"
    echo "${users[${text%%|*}]# }" | tr ' ' '\n' | LC_ALL=C sort -u | paste -sd ' ' | fold -sw 100
    echo
    cat "${text#*|}"
done
