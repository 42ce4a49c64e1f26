# Builds parts of Kubernetes with the standard Go client, once: DIR PART... creates DIR/bin/PART for kube-apiserver,
# kube-controller-manager, kube-scheduler, kubelet, kwok, and a containerd with its programs that is newer than Debian's. DIR has
# one version of each; other versions are rebuilt.
set -eu
kubernetes=1.37.2
kwok=0.8.0
containerd=2.4.2
dir=$1
shift
mkdir -p "$dir/bin" "$dir/module"
go version | grep -qE 'go(1\.(2[1-9]|[3-9][0-9])|[2-9])' || { echo 'Go 1.21 or later is needed, which fetches the version that Kubernetes wants' >&2; exit 1; }

# k8s.io/kubernetes refers to its libraries by paths in its own tree. A module that requires it must replace these.
write_module() {
    cd "$dir/module"
    [ ! -f go.mod ] || return 0
    origin=$(GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
    {
        echo 'module parts'
        sed -n 's/^go \(.*\)$/go \1/p' "$origin"
        echo "require k8s.io/kubernetes v$kubernetes"
        sed -n "s|^\(\t\)*\(k8s.io/[a-z0-9-]*\) => ./staging/.*|replace \2 => \2 v0.${kubernetes#*.}|p" "$origin"
    } >go.mod.new
    cat >parts.go <<'GO'
//go:build tools

package parts

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
GO
    mv go.mod.new go.mod
    go mod tidy -e >tidy.log 2>&1 || { tail -5 tidy.log >&2; rm go.mod; exit 1; }
}

for part; do
    case $part in
    kwok) want="kwok $kwok" ;;
    containerd) want="containerd $containerd" ;;
    *) want="$part $kubernetes" ;;
    esac
    [ "$(cat "$dir/bin/$part.version" 2>/dev/null)" != "$want" ] || continue
    echo "building $part" >&2
    case $part in
    kwok) CGO_ENABLED=0 GOBIN="$dir/bin" go install "sigs.k8s.io/kwok/cmd/kwok@v$kwok" ;;
    containerd)
        for program in containerd containerd-shim-runc-v2 ctr; do
            CGO_ENABLED=0 GOBIN="$dir/bin" go install "github.com/containerd/containerd/v2/cmd/$program@v$containerd"
        done
        ;;
    *)
        write_module
        (cd "$dir/module" && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=v$kubernetes" \
            -o "$dir/bin/$part" "k8s.io/kubernetes/cmd/$part")
        ;;
    esac
    echo "$want" >"$dir/bin/$part.version"
done
