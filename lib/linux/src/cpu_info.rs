//! `/proc/cpuinfo`: models, clock rates and floating point units. The keys differ by architecture.
//!
//! | Architecture | Words of the implementation line | Brand | Clock |
//! |---|---|---|---|
//! | x86 | `vendor_id`, `cpu family`, `model`, `stepping` | `model name` | `cpu MHz` |
//! | Arm | `CPU implementer`, `part`, `variant`, `revision`, of each CPU | `model name` | |
//! | POWER | `revision` | `cpu` | `clock` |
//! | s390 | `vendor_id`, the machine of `processor 0` | | `cpu MHz static` |
//! | RISC-V | `isa` | `uarch` | |
//! | LoongArch | `CPU Family` | `Model Name` | `CPU MHz` |
//! | SPARC | `type` | `cpu` | `Cpu0ClkTck`, in hertz |
//!
//! The architecture is that of the captured machine: a capture has it in `proc/sys/kernel/arch`. Without this file, it is
//! inferred from the keys.

use crate::Root;
use millpond_model::{CpuId, printable};
use std::collections::BTreeMap;

/// The parsed file.
#[derive(Debug, Default)]
pub(crate) struct CpuInfo {
    /// The instruction set, as `psrinfo -v` names it.
    pub isa: String,
    /// The floating point unit, as `psrinfo -v` names it.
    pub fpu: Option<String>,
    /// The model name.
    pub brand: String,
    /// The words of the implementation line, if they are the same on all CPUs.
    words: String,
    /// The words of the implementation line by CPU, where they may differ.
    words_of: BTreeMap<u32, String>,
    mhz: BTreeMap<u32, u64>,
}

/// The file with the architecture: the machine name of uname(2), since Linux 6.1.
pub(crate) const ARCHITECTURE: &str = "sys/kernel/arch";

/// The architecture, as uname(2) names it; `None` for a captured machine without it.
pub(crate) fn architecture(root: &Root) -> Option<String> {
    let file = root.read_value(&root.proc.join(ARCHITECTURE)).ok().flatten();
    let own = || root.is_live().then(|| rustix::system::uname().machine().to_string_lossy().into_owned());
    file.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).or_else(own)
}

impl CpuInfo {
    pub(crate) fn read(root: &Root) -> Self {
        let text = root.read(&root.proc.join("cpuinfo")).ok().flatten().unwrap_or_default();
        Self::parse(&text, architecture(root).as_deref())
    }

    fn parse(text: &str, architecture: Option<&str>) -> Self {
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        let (mut mhz, mut words_of) = (BTreeMap::new(), BTreeMap::<u32, String>::new());
        let mut cpu = 0;
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim(), value.trim());
            match key {
                "processor" | "cpu number" => cpu = value.parse().unwrap_or(cpu),
                "cpu MHz" | "CPU MHz" | "cpu MHz static" | "clock" => {
                    mhz.extend(whole(value).map(|mhz| (cpu, mhz)));
                }
                "CPU implementer" | "CPU part" | "CPU variant" | "CPU revision" => {
                    let words = words_of.entry(cpu).or_default();
                    let (blank, name) = (if words.is_empty() { "" } else { " " }, &key["CPU ".len()..]);
                    words.push_str(&format!("{blank}{name} {}", printable(value)));
                }
                _ => {}
            }
            if let Some(hertz) = key.strip_prefix("Cpu").and_then(|rest| rest.strip_suffix("ClkTck")) {
                let hex = u64::from_str_radix(value, 16).ok();
                mhz.extend(hertz.parse().ok().zip(hex.map(|hertz: u64| hertz / 1_000_000)));
            }
            fields.entry(key).or_insert(value);
        }
        let name = architecture.map_or_else(|| architecture_by_keys(&fields), |name| name.to_owned());
        let field = |key: &str| fields.get(key).copied().unwrap_or_default();
        let has = |key: &str, word: &str| field(key).split_ascii_whitespace().any(|found| found == word);
        let ieee = |is_there: bool| is_there.then_some("IEEE 754");
        let mut info = CpuInfo { isa: printable(&name).into_owned(), mhz, ..CpuInfo::default() };
        let (fpu, words, brand) = match name.as_str() {
            "x86_64" | "amd64" | "i386" | "i486" | "i586" | "i686" => {
                info.isa = "i386".to_owned();
                let unit = (field("fpu") == "yes").then_some("i387 compatible");
                let [family, model, step] = ["cpu family", "model", "stepping"].map(field);
                let vendor = field("vendor_id");
                let words = if vendor.is_empty() {
                    String::new()
                } else {
                    format!("{vendor} family {family} model {model} step {step}")
                };
                (unit, words, field("model name"))
            }
            "s390x" | "s390" => {
                let machine = field("processor 0").rsplit_once("machine = ").map(|(_, machine)| machine);
                let machine = machine.map(|machine| format!(" machine {machine}")).unwrap_or_default();
                (ieee(true), format!("{}{machine}", field("vendor_id")), "")
            }
            "sparc64" | "sparc" => {
                info.isa = if name == "sparc" { "sparc" } else { "sparcv9" }.to_owned();
                let unit = (!field("fpu").is_empty()).then_some(info.isa.as_str());
                (unit, field("type").to_owned(), field("cpu"))
            }
            _ if name.starts_with("ppc") => {
                let brand = field("cpu").split(',').next().unwrap_or_default();
                let revision = Some(field("revision")).filter(|text| !text.is_empty());
                let words = revision.map(|text| format!("revision {text}")).unwrap_or_default();
                (ieee(name.starts_with("ppc64")), words, brand)
            }
            _ if name.starts_with("riscv") => {
                let isa = field("isa");
                (ieee(has_float(isa)), isa.to_owned(), field("uarch"))
            }
            _ if name.starts_with("loongarch") => {
                (ieee(has("Features", "fpu")), field("CPU Family").to_owned(), field("Model Name"))
            }
            _ if name.starts_with("mips") => (
                ieee(field("cpu model").contains("FPU")),
                field("system type").to_owned(),
                field("cpu model"),
            ),
            _ if name.starts_with("arm") || name == "aarch64" => {
                info.isa = if name == "arm64" { "aarch64" } else { info.isa.as_str() }.to_owned();
                info.words_of = words_of;
                (ieee(has("Features", "fp") || has("Features", "vfp")), String::new(), field("model name"))
            }
            _ => (None, String::new(), field("model name")),
        };
        info.fpu = fpu.map(str::to_owned);
        info.words = printable(&words).into_owned();
        info.brand = printable(brand).into_owned();
        info
    }

    /// The current clock rate of a CPU. For an off-line CPU, the rate of the first CPU.
    pub(crate) fn mhz(&self, cpu: CpuId) -> Option<u64> {
        self.mhz.get(&cpu.0).or_else(|| self.mhz.values().next()).copied()
    }

    /// The implementation line of a CPU with this clock rate.
    pub(crate) fn implementation(&self, cpu: CpuId, clock_mhz: Option<u64>) -> String {
        let words =
            self.words_of.get(&cpu.0).or_else(|| self.words_of.values().next()).unwrap_or(&self.words);
        if words.is_empty() {
            return self.isa.clone();
        }
        let isa = if self.isa == "i386" { "x86" } else { &self.isa };
        let clock = clock_mhz.map(|mhz| format!(" clock {mhz} MHz")).unwrap_or_default();
        format!("{isa} ({words}{clock})")
    }
}

/// The whole megahertz of `2600.123` and of `3690.000000MHz`.
fn whole(value: &str) -> Option<u64> {
    value.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether a RISC-V instruction set (`rv64imafdc_zicsr`) has floating point. Single-letter extensions come first.
fn has_float(isa: &str) -> bool {
    let letters = isa.get("rv64".len()..).unwrap_or_default();
    letters.split('_').next().unwrap_or_default().contains(['f', 'd', 'g', 'q'])
}

/// Infers the architecture from the keys.
fn architecture_by_keys(fields: &BTreeMap<&str, &str>) -> String {
    let field = |key: &str| fields.get(key).copied().unwrap_or_default();
    let arm_64 = || field("Features").split(' ').any(|word| word == "fp" || word == "asimd");
    let name = match () {
        () if field("vendor_id").starts_with("IBM/S390") => "s390x",
        () if fields.contains_key("vendor_id") => "x86_64",
        () if fields.contains_key("CPU implementer") => {
            if arm_64() {
                "aarch64"
            } else {
                "arm"
            }
        }
        () if field("isa").starts_with("rv32") => "riscv32",
        () if field("isa").starts_with("rv") => "riscv64",
        () if field("CPU Family").starts_with("Loongson") => "loongarch64",
        () if field("type").starts_with("sun4u") || field("type").starts_with("sun4v") => "sparc64",
        () if field("type").starts_with("sun4") => "sparc",
        () if fields.contains_key("cpu model") => "mips",
        () if fields.contains_key("timebase") => "ppc64",
        () => "unknown",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instruction set, floating point unit, implementation of CPU 1 at its clock rate, brand.
    fn told(text: &str, architecture: Option<&str>) -> [String; 4] {
        let info = CpuInfo::parse(text, architecture);
        let implementation = info.implementation(CpuId(1), info.mhz(CpuId(1)));
        [info.isa, info.fpu.unwrap_or_default(), implementation, info.brand]
    }

    const S390: &str = "vendor_id       : IBM/S390\n# processors    : 2\nfeatures\t: esan3 zarch vx\n\
        processor 0: version = FF,  identification = 2733E8,  machine = 2964\n\
        processor 1: version = FF,  identification = 2733E8,  machine = 2964\n\n\
        cpu number      : 0\ncpu MHz dynamic : 4000\ncpu MHz static  : 5000\n\n\
        cpu number      : 1\ncpu MHz dynamic : 4000\ncpu MHz static  : 5000\n";
    const POWER: &str = "processor\t: 0\ncpu\t\t: POWER9 (raw), altivec supported\nclock\t\t: 2300.000000MHz\n\
        revision\t: 2.2 (pvr 004e 1202)\n\nprocessor\t: 1\ncpu\t\t: POWER9 (raw), altivec supported\n\
        clock\t\t: 2310.000000MHz\nrevision\t: 2.2 (pvr 004e 1202)\n\ntimebase\t: 512000000\nplatform\t: PowerNV\n";
    const ARM: &str = "processor\t: 0\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: 0x41\n\
        CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd03\nCPU revision\t: 4\n\n\
        processor\t: 1\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: 0x41\n\
        CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd08\nCPU revision\t: 3\n";
    const RISCV: &str =
        "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc_zicsr\nmmu\t\t: sv39\nuarch\t\t: sifive,u74-mc\n";
    const LOONGARCH: &str = "system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 0\n\
        CPU Family\t\t: Loongson-64bit\nModel Name\t\t: Loongson-3A5000\nCPU MHz\t\t\t: 2500.00\n\
        Features\t\t: cpucfg lam ual fpu lsx\n";
    const SPARC: &str = "cpu\t\t: UltraSparc T4 (Niagara4)\nfpu\t\t: UltraSparc T4 integrated FPU\ntype\t\t: sun4v\n\
        Cpu0ClkTck\t: 00000000a9beb5a8\nCpu1ClkTck\t: 00000000a9beb5a8\n";
    const X86: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 58\nstepping\t: 9\n\
        model name\t: Some CPU\ncpu MHz\t\t: 2600.123\nfpu\t\t: yes\n";

    #[test]
    fn each_architecture_has_its_own_names() {
        let line = "s390x (IBM/S390 machine 2964 clock 5000 MHz)";
        assert_eq!(told(S390, Some("s390x")), ["s390x", "IEEE 754", line, ""]);
        let line = "ppc64le (revision 2.2 (pvr 004e 1202) clock 2310 MHz)";
        assert_eq!(told(POWER, Some("ppc64le")), ["ppc64le", "IEEE 754", line, "POWER9 (raw)"]);
        let line = "aarch64 (implementer 0x41 variant 0x1 part 0xd08 revision 3)";
        assert_eq!(told(ARM, Some("aarch64")), ["aarch64", "IEEE 754", line, ""]);
        let line = "riscv64 (rv64imafdc_zicsr)";
        assert_eq!(told(RISCV, Some("riscv64")), ["riscv64", "IEEE 754", line, "sifive,u74-mc"]);
        let line = "loongarch64 (Loongson-64bit clock 2500 MHz)";
        assert_eq!(
            told(LOONGARCH, Some("loongarch64")),
            ["loongarch64", "IEEE 754", line, "Loongson-3A5000"]
        );
        let line = "sparcv9 (sun4v clock 2847 MHz)";
        assert_eq!(told(SPARC, Some("sparc64")), ["sparcv9", "sparcv9", line, "UltraSparc T4 (Niagara4)"]);
        let line = "x86 (GenuineIntel family 6 model 58 step 9 clock 2600 MHz)";
        assert_eq!(told(X86, Some("x86_64")), ["i386", "i387 compatible", line, "Some CPU"]);
    }

    #[test]
    fn without_its_name_the_keys_tell_the_architecture() {
        let isa = |text| CpuInfo::parse(text, None).isa;
        assert_eq!(
            [S390, POWER, ARM, RISCV, LOONGARCH, SPARC, X86].map(isa),
            ["s390x", "ppc64", "aarch64", "riscv64", "loongarch64", "sparcv9", "i386"]
        );
        let (arm, mips) =
            ("CPU implementer : 0x41\nFeatures : half vfp\n", "cpu model : MIPS 24Kc V5.0  FPU V0.0\n");
        assert_eq!([arm, mips, ""].map(isa), ["arm", "mips", "unknown"]);
        let fpu = |text| CpuInfo::parse(text, None).fpu;
        assert_eq!([arm, mips].map(fpu), [Some("IEEE 754".to_owned()), Some("IEEE 754".to_owned())]);
        assert_eq!(
            [fpu("isa : rv64imac_zfh\n"), fpu("CPU implementer : 0x41\nFeatures : half\n")],
            [None, None]
        );
    }

    #[test]
    fn what_the_file_says_is_shown_escaped() {
        let info =
            CpuInfo::parse("vendor_id : a\u{1b}[2J\nmodel name : b\u{1b}c\nfpu : yes\n", Some("x86_64"));
        assert!(!(info.implementation(CpuId(0), None) + &info.brand).contains('\u{1b}'));
        assert!(!CpuInfo::parse("", Some("x\u{7}")).isa.contains('\u{7}'));
    }

    #[test]
    fn fuzz_cpuinfo() {
        let all = [S390, POWER, ARM, RISCV, LOONGARCH, SPARC, X86];
        millpond_fuzz::check_text("linux-cpu-info", &all, |text| {
            for name in
                [None, Some("s390x"), Some("ppc64le"), Some("riscv64"), Some("sparc64"), Some("arm64")]
            {
                let info = CpuInfo::parse(text, name);
                assert!(!info.implementation(CpuId(0), info.mhz(CpuId(0))).is_empty());
            }
        });
    }
}
