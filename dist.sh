#!/usr/bin/env bash
# Builds a release: dist/millstream-VERSION-TARGET.tar.gz with the library, its headers, CMake and
# pkg-config files, the program, and the licenses of everything inside; dist/SHA256SUMS beside it.
#
#   ./dist.sh            needs Rust, a C compiler, cmake and make
#
# The same commit, tools and folders give the same archive, byte for byte.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
target=$(rustc -vV | sed -n 's/^host: //p')
name=millstream-$version-$target
dist=$PWD/dist
tree=$dist/$name
rm -rf "$dist"
mkdir -p "$tree/bin" "$tree/licenses"

cmake -S crates/millstream-capi -B "$dist/build" -DCMAKE_INSTALL_PREFIX="$tree" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_STRIP="$(command -v strip)" >/dev/null
cmake --build "$dist/build"
cmake --install "$dist/build" --strip >/dev/null
# The archive may be unpacked anywhere.
sed -i -e 's|^prefix=.*|prefix=${pcfiledir}/../..|' -e 's|^libdir=.*|libdir=${prefix}/lib|' \
    -e 's|^includedir=.*|includedir=${prefix}/include|' "$tree/lib/pkgconfig/millstream.pc"

cargo build --release --locked -p millstream-cli
strip "${CARGO_TARGET_DIR:-target}/release/millstream" -o "$tree/bin/millstream"
cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$tree"

# One folder of texts for each package that is compiled in, as its authors ship them.
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
cargo tree --locked -p millstream-capi -p millstream-cli -e normal --target "$target" --prefix none \
    --format '{p}|{l}' | sed 's/ (.*)|/|/; s/ (\*)$//; s/ v\([^ |]*\)|/-\1|/' | sort -u |
    grep -v '^$\|^millstream\|^gdeflate' >"$tree/licenses/PACKAGES"
while IFS='|' read -r package license; do
    source=$(find "$sources" -mindepth 2 -maxdepth 2 -name "$package" | head -n 1)
    [[ -n $source ]] || { echo "no source of $package"; exit 1; }
    mkdir "$tree/licenses/$package"
    (cd "$source" && find . -maxdepth 3 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' \
        -o -iname 'copyright*' -o -iname 'notice*' -o -iname 'unlicense*' \) \
        -exec cp --parents {} "$tree/licenses/$package" \;)
    rmdir "$tree/licenses/$package" 2>/dev/null && echo "$package ships no text: $license"
done <"$tree/licenses/PACKAGES"
notices=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
[[ ! -f $notices ]] || cp "$notices" "$tree/licenses/rust-standard-library.html"

rm -r "$dist/build"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' \
    --mtime="@$(git log -1 --format=%ct)" --directory "$dist" "$name" |
    gzip --no-name --best >"$dist/$name.tar.gz"
rm -r "$tree"
(cd "$dist" && sha256sum "$name.tar.gz" | tee SHA256SUMS)
