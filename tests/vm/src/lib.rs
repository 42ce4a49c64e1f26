//! Real kernels for tests: Debian's kernels, booted under QEMU, with our programs in the guest.
//!
//! # Why
//!
//! Whether Millpond keeps its promises depends on the kernel: a partition that reads `root invalid`, an interrupt that refuses to
//! move, a CPU that comes back into two sets at once. Such behaviour differs between kernels, and must not be tried on the
//! machine that runs the tests. So a test boots the kernel in question in a guest, and discards the guest afterwards.
//! # Nouns
//!
//! * A **kernel** ([`Kernel`]) is a Debian package, unpacked in the cache: an image and its modules.
//! * An **image** ([`Image`]) is the file tree of the guest, loaded as an initramfs: busybox, the programs under test with their
//!   shared libraries, and the files that a test adds.
//! * A **guest** ([`Guest`]) is a virtual machine: CPUs and their topology, memory nodes, network cards, cgroup layout.
//! * A **case** ([`Case`]) is a named shell script. One boot runs many.
//! * A **report** ([`Report`]) has the results.
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
//! The guest's process 1 (`guest/init.sh`) mounts the file systems, loads the modules, then runs the cases in order, each in a
//! separate shell. After each case it kills remaining processes and restores the machine: CPUs on-line, cgroups removed,
//! interrupt masks as at boot. [`CaseResult::left`] lists the restored settings, so that a test can require that a program left
//! nothing behind.
//!
//! Results are sent as frames (a header line and a body) over a separate virtio port, so kernel messages on the console cannot
//! disturb them. A frame is sent as soon as it is complete: if the guest dies, the results of earlier cases are kept.
//!
//! # What a caller must do
//!
//! Call [`available`] first, and treat [`Unavailable`] as [`decide`] returns: skip with a message, or fail if `MILLPOND_REQUIRE`
//! names `vm`. A missing kernel must never look like a passed test.
//!
//! # Order and failure
//!
//! A guest has a deadline for each stage (booting, each case), multiplied by `MILLPOND_VM_TIMEOUT_SCALE` (default 3). [`VmError`]
//! has a variant for each kind of failure: the guest did not boot, panicked, timed out, or refused the requested set-up. The
//! cache is filled in a temporary directory, which is renamed under a lock. So several processes can share the cache, and any of
//! them can be killed.
//!
//! # Environment variables
//!
//! `MILLPOND_CACHE` directory of the cache · `MILLPOND_VM_REFRESH=1` look for newer kernels · `MILLPOND_REQUIRE=vm` no skips ·
//! `MILLPOND_VM_TIMEOUT_SCALE=10` longer deadlines · `MILLPOND_VM_ACCEL=single|counted|multi|kvm` emulation · `MILLPOND_QEMU`
//! another emulator · `MILLPOND_BIN_NAME` a program to use instead of building NAME.
//!
//! # What it does not do
//!
//! No KVM unless requested (`MILLPOND_VM_ACCEL=kvm`), because a `/dev/kvm` that can be opened does not always work. No
//! distribution in the guest (only systemd, by [`obtain_systemd`]), no network to the host, no disk but an empty one, no second
//! attempt of a failed boot: a flaky boot is a bug. Guest time is not real time: compare counts and ratios, never seconds.

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
