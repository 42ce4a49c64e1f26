//! A short test of each operation, for tools such as Miri under which each step takes long. `tests/umem_operations.rs` makes many steps.

use super::{
    RawCachePlan, malloc, map, umem_alloc, umem_cache_alloc, umem_cache_create, umem_cache_destroy,
    umem_cache_free, umem_free, umem_reap, umem_zalloc, update,
};
use libc::{c_int, c_void};
use std::ptr;

const MADE: u64 = 0x600d_600d_600d_600d;

unsafe extern "C" fn make(buffer: *mut c_void, _: *mut c_void, _: c_int) -> c_int {
    // SAFETY: the buffer has a word.
    unsafe { buffer.cast::<u64>().write(MADE) };
    0
}

unsafe extern "C" fn end(buffer: *mut c_void, _: *mut c_void) {
    // SAFETY: as above.
    assert_eq!(unsafe { buffer.cast::<u64>().read() }, MADE);
}

#[test]
fn objects_come_made_and_go_whole() {
    let plan = RawCachePlan {
        name: c"little",
        size: 40,
        align: 0,
        constructor: Some(make),
        destructor: Some(end),
        reclaim: None,
        private: ptr::null_mut(),
        cflags: 0,
    };
    let cache = umem_cache_create(&plan).unwrap();
    // SAFETY: objects are of that cache, and are not used after they were freed.
    unsafe {
        let objects: Vec<*mut u8> = (0..20).map(|_| umem_cache_alloc(cache, 0)).collect();
        for object in &objects {
            assert_eq!(object.cast::<u64>().read(), MADE);
            object.add(8).write_bytes(1, 32);
        }
        objects.into_iter().for_each(|object| umem_cache_free(cache, object));
        umem_reap();
        umem_cache_free(cache, umem_cache_alloc(cache, 0));
        umem_cache_destroy(cache);
    }
}

#[test]
fn buffers_of_all_kinds_keep_what_is_in_them() {
    // SAFETY: buffers have the requested size, and are not used after they were freed.
    unsafe {
        for size in [16, 3000, 140_000] {
            let (one, zeros) = (umem_alloc(size, 0), umem_zalloc(size, 0));
            one.write_bytes(1, size);
            assert_eq!((zeros.read(), zeros.add(size - 1).read()), (0, 0));
            umem_free(one, size);
            umem_free(zeros, size);
            let mut data = malloc::malloc(size);
            data.add(size - 1).write(7);
            data = malloc::realloc(data, size * 2);
            assert_eq!(data.add(size - 1).read(), 7);
            assert_eq!(malloc::usable_size(data), size * 2);
            malloc::free(data);
            let aligned = malloc::memalign(256, size);
            assert!(aligned.addr().is_multiple_of(256));
            aligned.write_bytes(1, size);
            malloc::free(aligned);
            let zeros = malloc::calloc(size, 1);
            assert_eq!((zeros.read(), zeros.add(size - 1).read()), (0, 0));
            malloc::free(zeros);
        }
    }
}

#[test]
fn what_a_thread_made_another_one_frees() {
    let make = || (0..40).map(|at| malloc::malloc(24 + at).expose_provenance()).collect::<Vec<_>>();
    let made = std::thread::spawn(make).join().unwrap();
    // SAFETY: each buffer is this test's, once.
    unsafe { made.into_iter().for_each(|at| malloc::free(ptr::with_exposed_provenance_mut(at))) };
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no way to wait for a lock of ours")]
fn threads_hand_buffers_on_at_once() {
    std::thread::scope(|scope| {
        let (mut senders, receivers): (Vec<_>, Vec<_>) =
            (0..4).map(|_| std::sync::mpsc::channel::<usize>()).unzip();
        senders.rotate_left(1);
        for (sender, receiver) in senders.into_iter().zip(receivers) {
            scope.spawn(move || {
                for turn in 0..2000 {
                    let data = malloc::malloc(16 + turn % 900);
                    // SAFETY: the buffer is this thread's, and has that size.
                    unsafe { data.write_bytes(1, 16) };
                    sender.send(data.expose_provenance()).unwrap();
                    // SAFETY: it was handed to this thread.
                    receiver
                        .try_iter()
                        .for_each(|at| unsafe { malloc::free(ptr::with_exposed_provenance_mut(at)) });
                }
                drop(sender);
                // SAFETY: as above.
                receiver.iter().for_each(|at| unsafe { malloc::free(ptr::with_exposed_provenance_mut(at)) });
            });
        }
    });
}

#[test]
fn caches_are_asked_to_give_back_only_what_they_could_have() {
    let one = umem_alloc(200_000, 0);
    assert!(update::can_help(4096));
    for too_much in [1 << 47, map::REACH + 1, usize::MAX / 2, usize::MAX] {
        assert!(!update::can_help(too_much), "{too_much:#x}");
    }
    // SAFETY: the buffer is this test's, and has that size.
    unsafe { umem_free(one, 200_000) };
}
