# Makes an image of busybox for a container runtime (a docker-archive): BUSYBOX NAME DIR writes DIR/image.tar.
set -e
busybox=$1
name=$2
cd "$3"
mkdir -p root/bin root/tmp root/proc root/sys root/dev root/etc
cp "$busybox" root/bin/busybox
for applet in sh sleep cat grep nproc ls taskset date echo true yes kill; do
    ln -sf busybox "root/bin/$applet"
done
tar -C root -cf layer.tar .
layer=$(sha256sum layer.tar | cut -d' ' -f1)
mkdir -p "$layer"
mv layer.tar "$layer/layer.tar"
machine=amd64
[ "$(uname -m)" != aarch64 ] || machine=arm64
printf '{"architecture":"%s","os":"linux","config":{"Cmd":["sleep","1000000"],"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$machine" "$layer" >config
config=$(sha256sum config | cut -d' ' -f1)
mv config "$config.json"
printf '[{"Config":"%s.json","RepoTags":["%s"],"Layers":["%s/layer.tar"]}]' "$config" "$name" "$layer" >manifest.json
tar -cf image.tar manifest.json "$config.json" "$layer"
