//! Real kernels for tests: Debian's, booted under QEMU, with our own programs inside.
//!
//! # Why
//!
//! What Millpond promises is kept or broken by a kernel: a partition that reads `root invalid`, an interrupt that
//! refuses to move, a CPU that comes back into two sets at once. These differ from one kernel to the next, and none
//! of them may be tried on the machine that runs the tests. So a test boots the kernel it is about, does there what
//! it likes, and throws the machine away.
//!
//! # Nouns
//!
//! * A **kernel** ([`Kernel`]) is a Debian package, unpacked in the cache: an image and its modules.
//! * An **image** ([`Image`]) is the file tree that the guest sees, sent to it as an initramfs: busybox, the programs
//!   under test with their shared libraries, and whatever a test adds.
//! * A **guest** ([`Guest`]) is a machine to be: CPUs and how they are grouped, memory nodes, network cards, cgroup layout.
//! * A **case** ([`Case`]) is a shell script with a name. One boot runs many.
//! * A **report** ([`Report`]) is what came back.
//!
//! # How it works
//!
//! ```text
//!   apt's index --> .deb files --> cache --+
//!   programs + ldd ------------------------+--> initramfs --> qemu-system-x86_64
//!   guest/init.sh, guest/case.sh, scripts -+                   |          |
//!                                              ttyS0: the kernel's words  virtio port: frames
//!                                                              |          |
//!                                                              +--Report--+
//! ```
//!
//! The guest's first process (`guest/init.sh`) mounts the file systems, loads the modules, then runs the cases in order,
//! each in a shell of its own. After each it kills what is left running and puts the machine back: CPUs on-line, cgroups
//! gone, interrupt masks as at boot. What it had to put back is told in [`CaseResult::left`], so that a test can demand
//! that a program left nothing behind.
//!
//! Results come over a virtio port of their own, as frames (a header line, then so many bytes), so the kernel may say
//! on its console whatever it likes. A frame is sent as soon as there is something to tell: when the guest dies half-way,
//! the cases before keep their results.
//!
//! # What a caller must do
//!
//! Ask [`available`] first, and treat [`Unavailable`] as [`decide`] says: a skip that is told, or a failure when
//! `MILLPOND_REQUIRE` names `vm`. A missing kernel must never look like a passed test.
//!
//! # Order and failure
//!
//! A guest has a deadline for each stage (booting, each case), multiplied by `MILLPOND_VM_TIMEOUT_SCALE` (3 if it is not set). Each way to
//! die has its name in [`VmError`]: it never booted, it panicked, it ran out of time, it refused the set-up asked for.
//! The cache is filled in a directory aside and renamed into place under a lock, so two users may share it and any of
//! them can be killed.
//!
//! # What the environment may say
//!
//! `MILLPOND_CACHE` where kernels are kept · `MILLPOND_VM_REFRESH=1` look for newer ones · `MILLPOND_REQUIRE=vm` no skips ·
//! `MILLPOND_VM_TIMEOUT_SCALE=10` longer deadlines · `MILLPOND_VM_ACCEL=single|counted|multi|kvm` how to emulate · `MILLPOND_QEMU` another emulator ·
//! `MILLPOND_BIN_NAME` a program to take instead of building NAME.
//!
//! # What it does not do
//!
//! No KVM unless asked for (`MILLPOND_VM_ACCEL=kvm`): a `/dev/kvm` that opens is no proof of one that works. No distribution in
//! the guest (systemd alone can be had, [`obtain_systemd`]), no network to the host, no disk but an empty one, no second try of a boot that failed: a flaky boot is a bug to look at.
//! Time in a guest is not time: compare counts and ratios, never seconds.

mod apt;
mod arm;
mod build;
mod cache;
mod capability;
mod case;
mod frames;
mod guest;
mod image;
mod kernels;
mod libraries;
mod modules;
mod report;
mod run;
mod shape;
mod sources;
mod userland;

pub use arm::{ArmTools, obtain_arm_kernel};
pub use build::{BuildError, cargo_binary, cargo_example, cargo_test_binary};
pub use cache::Cache;
pub use capability::{Decision, Unavailable, available, decide, is_required};
pub use case::{Case, CaseError};
pub use guest::{Accel, Cgroup, Guest, Nic};
pub use image::{Image, ImageError};
pub use kernels::{Flavour, Kernel, KernelId, Series, UnknownKernel, obtain};
pub use report::{CaseResult, Report, Verdict};
pub use run::VmError;
pub use shape::{Shape, ShapeError};
pub use userland::{
    ContainerTools, Containerd, obtain_containerd, obtain_debian, obtain_irqbalance, obtain_isolators,
    obtain_nginx, obtain_rtla, obtain_systemd,
};
