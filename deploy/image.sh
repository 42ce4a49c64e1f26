# Makes an image of one static program for a container runtime (a docker-archive): PROGRAM NAME DIR [LINK...] writes DIR/image.tar.
# The program lies in /bin, with links of these names to it, as busybox needs them; then the image sleeps. Without links it is what the image runs.
set -e
program=$1
name=$2
dir=$3
shift 3
base=$(basename "$program")
mkdir -p "$dir/root/bin"
cp "$program" "$dir/root/bin/$base"
cd "$dir"
mkdir -p root/tmp root/proc root/sys root/dev root/etc root/run root/var/log
runs="\"Entrypoint\":[\"/bin/$base\"]"
for link; do
    ln -sf "$base" "root/bin/$link"
    runs='"Cmd":["sleep","1000000"]'
done
tar -C root -cf layer.tar .
layer=$(sha256sum layer.tar | cut -d' ' -f1)
mkdir -p "$layer"
mv layer.tar "$layer/layer.tar"
machine=amd64
[ "$(uname -m)" != aarch64 ] || machine=arm64
printf '{"architecture":"%s","os":"linux","config":{%s,"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$machine" "$runs" "$layer" >config
config=$(sha256sum config | cut -d' ' -f1)
mv config "$config.json"
printf '[{"Config":"%s.json","RepoTags":["%s"],"Layers":["%s/layer.tar"]}]' "$config" "$name" "$layer" >manifest.json
tar -cf image.tar manifest.json "$config.json" "$layer"
