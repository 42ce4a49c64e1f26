# A repository is created, packed by several threads, read, checked and cloned. The output is always the same.
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q repository
cd repository
for turn in 1 2 3 4 5 6 7 8 9 10; do
    for file in one two three four; do seq $turn $((turn * 7 + 3000)) >$file; done
    echo "$turn" >>one
    git add .
    export GIT_AUTHOR_DATE="2020-01-01T00:00:$turn Z" GIT_COMMITTER_DATE="2020-01-01T00:00:$turn Z"
    git commit -q -m "turn $turn"
done
git log --stat -p | cksum
git -c pack.threads=4 repack -q -a -d -f --window=20
git fsck --full --strict
git grep --threads=4 -c 77
git gc -q --prune=now
git blame one | cksum
git diff HEAD~7 | cksum
git clone -q . ../clone
git -C ../clone rev-parse HEAD
