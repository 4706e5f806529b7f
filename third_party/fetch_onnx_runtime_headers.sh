#!/usr/bin/env bash
# Fetches ONNX Runtime's headers from Debian 13's package, where this machine's Debian has none: with
# apt, from the mirror that this machine uses, under Debian's signature, and with lists and settings
# of its own. Usage: fetch_onnx_runtime_headers.sh FOLDER. The folder appears whole or not at all.
set -euo pipefail
folder=$1

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' | sed -n 's/^Debian //p' | head -1)
if [ -z "$mirror" ] || [ ! -e "$keyring" ]; then
  echo "No mirror of Debian's, or no keyring, to fetch ONNX Runtime's headers with" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"  # apt fetches as a user of its own
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
touch "$work/status"
echo "deb [signed-by=$keyring] $mirror trixie main" >"$work/sources.list"
cat >"$work/apt.conf" <<END
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::State "$work/state";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
END
export APT_CONFIG=$work/apt.conf
cd "$work"
{
  apt-get update --error-on=any
  apt-get download libonnxruntime-dev
} >log 2>&1 || { tail -3 log >&2; exit 1; }
dpkg-deb -x libonnxruntime-dev_*.deb package
mkdir headers
cp package/usr/include/onnxruntime/*.h package/usr/share/doc/libonnxruntime-dev/copyright headers

mkdir -p "$(dirname "$folder")"
rm -rf "$folder.partial"
cp -r headers "$folder.partial"
mv -T "$folder.partial" "$folder"
