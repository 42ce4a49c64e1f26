# Threads that allocate and free much, forks meanwhile, and child programs. The output is always the same.
import ctypes, hashlib, json, multiprocessing, os, re, subprocess, sys, threading, zlib


def work(seed):
    sums = hashlib.sha256()
    for turn in range(8):
        made = {"seed": seed, "items": [{"key": str(at), "value": [at] * (at % 7)} for at in range(200)]}
        text = json.dumps(made)
        assert json.loads(text) == made
        assert zlib.decompress(zlib.compress(text.encode())).decode() == text
        sums.update(text.encode())
    return sums.hexdigest()


def main():
    found = {}
    threads = [threading.Thread(target=lambda seed=seed: found.__setitem__(seed, work(seed))) for seed in range(6)]
    for thread in threads:
        thread.start()
    for at in range(8):
        said = subprocess.run(["echo", str(at)], capture_output=True, text=True, check=True).stdout
        print(said.strip())
        child = os.fork()
        if child == 0:
            os._exit(0 if len(work(at)) == 64 else 1)
        print(os.waitpid(child, 0)[1])
    for thread in threads:
        thread.join()
    print(sorted(found.items()))
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(pool.map(work, range(4)))
    print(subprocess.run([sys.executable, "-c", "print(sum(range(1000)))"], capture_output=True).stdout)
    print(len(re.findall("a+b", "aab" * 10000)))
    # More than the available memory: an error, and the program continues.
    try:
        bytearray(1 << 60)
    except MemoryError:
        print("no memory")
    buffer = ctypes.create_string_buffer(1 << 20)
    print(len(buffer), sum(map(len, [bytearray(size) for size in range(0, 200000, 997)])))


main()
