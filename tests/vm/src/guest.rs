//! A guest: its hardware and files, and the emulator's command line.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::cache::Cache;
use crate::capability::{self, Unavailable};
use crate::case::Case;
use crate::image::{Image, ImageError};
use crate::kernels::{Kernel, Series};
use crate::modules;
use crate::report::{CaseResult, Report};
use crate::run::{self, VmError};
use crate::shape::Shape;

/// The cgroup layout of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroup {
    /// cgroup v2 at `/sys/fs/cgroup`, with no controller enabled below the root.
    V2,
    /// v1 hierarchies at `/sys/fs/cgroup/cpuset`, `/sys/fs/cgroup/cpu,cpuacct` and so on, and v2 without controllers at
    /// `/sys/fs/cgroup/unified`.
    V1Hybrid,
    /// No cgroup file system is mounted.
    None,
}

/// A type of network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nic {
    /// virtio: one receive and one transmit interrupt, and one for configuration changes.
    Virtio,
    /// vmxnet3: an interrupt per CPU (up to 8), and one for events. Receives only on the first.
    Vmxnet3,
    /// Intel 82574L: receive, transmit and link interrupts. Not in cloud kernels.
    E1000e,
}

/// The emulation of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accel {
    /// All CPUs alternately on one host thread.
    TcgSingle,
    /// All CPUs alternately on one host thread, and the guest's clock counts instructions, 2 ns each. In a guest with one CPU,
    /// times are the same in each run, regardless of host load. For measuring latency, slices and costs; with several CPUs, the
    /// alternation adds milliseconds.
    Counted,
    /// A host thread per CPU: for guests with few CPUs that are all busy. With more host threads than host CPUs, spinning guest
    /// CPUs wait for each other: 32 on 2 did not boot in five minutes.
    TcgMulti,
    /// The host's hardware virtualisation, where it works.
    Kvm,
}

/// A guest to boot. Created by [`Guest::new`] and configured by the methods that return it.
#[derive(Debug, Clone)]
pub struct Guest {
    kernel: Kernel,
    shape: Shape,
    memory_mb: u32,
    nics: Vec<Nic>,
    has_disk: bool,
    has_remapping: bool,
    cgroup: Cgroup,
    accel: Option<Accel>,
    image: Image,
    modules: Vec<String>,
    command_line: String,
}

/// Time limit from the emulator's start to the first case, before `MILLPOND_VM_TIMEOUT_SCALE`. A boot takes some seconds; the
/// rest is a reserve for a busy host. Only a guest that hangs uses all of it.
pub(crate) const BOOT_LIMIT: Duration = Duration::from_secs(300);

/// All CPU features that can be emulated, except a broken one: in QEMU 7.2 `cmpxchg16b` without a lock prefix leaves flags that
/// no real CPU has, and an interrupt at that point carries them into the kernel. Debian's 6.12.107, whose allocator uses this
/// instruction, crashed in 40 of 115 boots; without the instruction, in none of 61. From 7.0 on the allocator does not use it in
/// that form, and without it does not give BPF programs memory for per-thread data.
fn cpu_model(series: Series) -> &'static str {
    if series < Series::V7_0 { "max,cx16=off" } else { "max" }
}

/// Memory for a kernel, its caches and the image, and for each CPU. The kernel gives the image at most half of the memory. Our
/// programs, as built for tests, have 180 MB.
const MEMORY_MB: u32 = 768;
const MEMORY_PER_CPU_MB: u32 = 24;

/// Kernel options of every guest. A panic resets at once, which `-no-reboot` turns into an exit; an oops is a panic. Only
/// warnings reach the console, because each character costs an exit from emulation. No timer check, because an emulated timer may
/// fail it on a busy host. The emulated TSC is the host's and does not jump; without this option the kernel distrusts it and uses
/// a slow clock. No address randomisation, because otherwise the emulator translates each program again for each process, and a
/// command takes twice as long to start.
const COMMAND_LINE: &str = "console=ttyS0 rdinit=/vm/init panic=-1 oops=panic quiet loglevel=5 log_buf_len=4M \
                            no_timer_check tsc=reliable mitigations=off audit=0 norandmaps";

impl Guest {
    /// A machine of this shape with no network card and no disk; cgroup v2.
    #[must_use]
    pub fn new(kernel: Kernel, shape: Shape) -> Self {
        let memory_mb = MEMORY_MB + MEMORY_PER_CPU_MB * shape.cpus() + 64 * shape.nodes();
        Self {
            kernel,
            shape,
            memory_mb,
            nics: Vec::new(),
            has_disk: false,
            has_remapping: false,
            cgroup: Cgroup::V2,
            accel: None,
            image: Image::new(),
            modules: Vec::new(),
            command_line: String::new(),
        }
    }

    /// Adds network cards `eth0`, `eth1`, … All are on one isolated network.
    #[must_use]
    pub fn nics(mut self, nics: &[Nic]) -> Self {
        self.nics = nics.to_vec();
        self
    }

    /// Adds a virtio disk `/dev/vda` of zeroes with a queue per CPU. The kernel manages the affinity of its interrupts and
    /// refuses changes.
    #[must_use]
    pub fn disk(mut self) -> Self {
        self.has_disk = true;
        self
    }

    /// Adds an interrupt remapper, as servers have: a new affinity mask has an effect at once. Without one, as on most virtual
    /// machines, an interrupt that is not managed only moves when it next occurs.
    #[must_use]
    pub fn interrupt_remapping(mut self) -> Self {
        self.has_remapping = true;
        self
    }

    /// Sets the cgroup layout.
    #[must_use]
    pub fn cgroup(mut self, cgroup: Cgroup) -> Self {
        self.cgroup = cgroup;
        self
    }

    /// Sets the emulation, overriding `MILLPOND_VM_ACCEL` (`single`, `counted`, `multi`, `kvm`) and the default.
    #[must_use]
    pub fn accel(mut self, accel: Accel) -> Self {
        self.accel = Some(accel);
        self
    }

    /// Sets the total memory, which is divided evenly among the nodes.
    #[must_use]
    pub fn memory_mb(mut self, memory_mb: u32) -> Self {
        self.memory_mb = memory_mb;
        self
    }

    /// Adds programs and files.
    #[must_use]
    pub fn image(mut self, image: &Image) -> Self {
        self.image = self.image.with(image.clone());
        self
    }

    /// Adds a kernel module to load at boot, with its dependencies.
    #[must_use]
    pub fn module(mut self, name: &str) -> Self {
        self.modules.push(name.to_owned());
        self
    }

    /// Adds words to the kernel command line.
    #[must_use]
    pub fn command_line(mut self, words: &str) -> Self {
        self.command_line.push(' ');
        self.command_line.push_str(words);
        self
    }

    /// Boots once and runs the cases in order.
    ///
    /// # Errors
    /// Nothing ran: no image, no emulator, or the guest did not boot or refused its set-up. If a guest dies later, the result is
    /// a report with [`Report::trouble`].
    pub fn run_cases(&self, cases: &[Case], cache: &Cache) -> Result<Report, VmError> {
        run::boot(self, cases, cache)
    }

    /// Boots once and runs one script.
    ///
    /// # Errors
    /// As [`Guest::run_cases`], and when the guest dies in the script.
    pub fn run(&self, script: &str, cache: &Cache) -> Result<CaseResult, VmError> {
        let case = Case::new("script", script).map_err(VmError::Case)?;
        let mut report = self.run_cases(&[case], cache)?;
        match report.trouble.take() {
            Some(trouble) => Err(trouble),
            None => Ok(report.cases.remove(0)),
        }
    }

    /// All files of the guest, cases included. `scale` multiplies the limits of cases.
    pub(crate) fn whole_image(&self, cases: &[Case], scale: f64, cache: &Cache) -> Result<Image, VmError> {
        let mut modules = vec!["virtio_pci".to_owned(), "virtio_console".to_owned(), "veth".to_owned()];
        modules.extend(self.nics.iter().map(|nic| nic.module().to_owned()));
        modules.extend(self.has_disk.then(|| "virtio_blk".to_owned()));
        modules.extend(self.modules.iter().cloned());
        let modules = modules::resolve(&self.kernel, &modules, cache)?;

        let mut image = base_image().map_err(VmError::Image)?.with(self.image.clone());
        let mut list = String::new();
        for module in modules {
            let path = format!("/vm/modules.d/{}.ko", module.name);
            image = image.copy(&path, &module.file, 0o644);
            list.push_str(&path);
            list.push('\n');
        }
        image = image.file("/vm/modules", list, 0o644).file("/vm/config", self.config(), 0o644);
        for (number, case) in cases.iter().enumerate() {
            let dir = format!("/vm/cases/{number:04}");
            let limit_s = (case.limit.as_secs_f64() * scale).ceil();
            image = image
                .file(format!("{dir}/name"), format!("{}\n", case.name), 0o644)
                .file(format!("{dir}/limit_s"), format!("{limit_s}\n"), 0o644)
                .file(format!("{dir}/script"), case.script.as_str(), 0o644);
        }
        Ok(image)
    }

    /// The settings for process 1, as shell variables.
    fn config(&self) -> String {
        let cgroup = match self.cgroup {
            Cgroup::V2 => "v2",
            Cgroup::V1Hybrid => "v1-hybrid",
            Cgroup::None => "none",
        };
        let mut text = format!("cgroup={cgroup}\nnics={}\n", self.nics.len());
        for (name, value) in self.shape.counts() {
            text.push_str(&format!("{name}={value}\n"));
        }
        text
    }

    /// The emulator's arguments. Results are written to its standard output, the console to a file.
    pub(crate) fn arguments(&self, initrd: &Path, console: &Path, accel: Accel) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
        add(&["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none"]);
        add(&["-machine", "q35", "-accel", accel.argument(), "-cpu", cpu_model(self.kernel.id.series)]);
        if accel == Accel::Counted {
            add(&["-icount", "shift=1,align=off,sleep=off"]);
        }
        if self.has_remapping {
            // Before all other devices: it must exist before those whose interrupts it remaps.
            add(&["-device", "intel-iommu,intremap=on"]);
        }
        for word in self.shape.arguments(self.memory_mb) {
            add(&[word.as_str()]);
        }
        // The chardev `stdio` would hang up when standard input ends, and the guest's writes would block.
        add(&["-chardev", "file,id=results,path=/dev/stdout", "-device", "virtio-serial-pci"]);
        add(&["-device", "virtserialport,chardev=results,name=millpond.results"]);
        for (number, nic) in self.nics.iter().enumerate() {
            let port = format!("hubport,hubid=0,id=port{number}");
            // No boot ROM: the guest does not boot from these cards, so the ROM package need not be installed.
            let card = format!(
                "{},netdev=port{number},mac=52:54:00:77:00:{:02x},romfile=",
                nic.device(),
                number + 1
            );
            add(&["-netdev", &port, "-device", &card]);
        }
        if self.has_disk {
            let disk = format!("virtio-blk-pci,drive=nothing,num-queues={}", self.shape.cpus());
            add(&["-blockdev", "null-co,node-name=nothing,size=67108864,read-zeroes=on", "-device", &disk]);
        }
        add(&["-append", &format!("{COMMAND_LINE}{}", self.command_line)]);
        args.extend(["-kernel".into(), self.kernel.vmlinuz.clone().into_os_string()]);
        args.extend(["-initrd".into(), initrd.as_os_str().to_owned()]);
        args.push("-chardev".into());
        let mut chardev = OsString::from("file,id=console,path=");
        chardev.push(console);
        args.extend([chardev, "-serial".into(), "chardev:console".into()]);
        args
    }

    /// The emulation for this guest: as set, else from the environment, else all CPUs alternately on one host thread. This boots
    /// fastest and leaves the other host CPUs to other guests.
    pub(crate) fn chosen_accel(&self, environment: Option<&str>) -> Result<Accel, Unavailable> {
        match (self.accel, environment) {
            (Some(accel), _) => Ok(accel),
            (None, None | Some("" | "single")) => Ok(Accel::TcgSingle),
            (None, Some("counted")) => Ok(Accel::Counted),
            (None, Some("multi")) => Ok(Accel::TcgMulti),
            (None, Some("kvm")) => Ok(Accel::Kvm),
            (None, Some(other)) => Err(Unavailable::new(
                format!("there is no emulation {other:?}"),
                "set MILLPOND_VM_ACCEL to single, counted, multi or kvm",
            )),
        }
    }
}

/// Busybox, process 1, and the few files that programs expect on any machine.
fn base_image() -> Result<Image, ImageError> {
    let busybox = capability::busybox()
        .map_err(|why| ImageError::Libraries { program: "busybox".into(), why: why.to_string() })?;
    let image = Image::new().program_at(Path::new("/bin/busybox"), &busybox)?;
    Ok(image
        .link("/bin/sh", "busybox")
        .directory("/busybox")
        .directory("/sys")
        .directory("/.vm")
        .file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", 0o644)
        .file("/etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o644)
        .file("/etc/hosts", "127.0.0.1 localhost guest\n", 0o644)
        .file("/vm/init", include_str!("../guest/init.sh"), 0o755)
        .file("/vm/case.sh", include_str!("../guest/case.sh"), 0o755))
}

impl Nic {
    fn device(self) -> &'static str {
        match self {
            Self::Virtio => "virtio-net-pci",
            Self::Vmxnet3 => "vmxnet3",
            Self::E1000e => "e1000e",
        }
    }

    fn module(self) -> &'static str {
        match self {
            Self::Virtio => "virtio_net",
            Self::Vmxnet3 => "vmxnet3",
            Self::E1000e => "e1000e",
        }
    }
}

impl Accel {
    /// At most 256 MB of translated code. QEMU's default is up to 1 GB per guest, and several guests run at once.
    fn argument(self) -> &'static str {
        match self {
            Self::TcgSingle => "tcg,thread=single,tb-size=256",
            Self::Counted => "tcg,thread=single,tb-size=256",
            Self::TcgMulti => "tcg,thread=multi,tb-size=256",
            Self::Kvm => "kvm",
        }
    }
}
