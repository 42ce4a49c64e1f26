//! The options of the classes, parsed to a request.

use crate::failure::Failure;
use millpond_cli::Parsed;
use millpond_formats::dispadmin::{RES_DEFAULT, RES_MAX};
use millpond_formats::priocntl::{quantum, signal};
use millpond_model::{Class, ClassParams, ClassRequest, NoSuchParams, Quantum};

/// The option letters of the classes.
const LETTERS: [char; 5] = ['m', 'p', 't', 'r', 'q'];

/// The values of these options.
#[derive(Debug)]
pub(super) struct Options {
    given: Vec<(char, String)>,
}

impl Options {
    pub(super) fn of(parsed: &Parsed) -> Options {
        Options { given: LETTERS.iter().filter_map(|l| Some((*l, parsed.value(*l)?))).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    fn value(&self, letter: char) -> Option<&str> {
        self.given.iter().find(|(l, _)| *l == letter).map(|(_, value)| value.as_str())
    }

    /// The request for a class, on a machine with `hz` ticks per second.
    ///
    /// # Errors
    /// [`Failure`] for an option that the class does not have, or a value that is invalid for it.
    pub(super) fn request(&self, class: Class, hz: u32) -> Result<ClassRequest, Failure> {
        let has = letters(class);
        if let Some((letter, _)) = self.given.iter().find(|(letter, _)| !has.contains(letter)) {
            let known: Vec<String> = has.iter().map(|l| format!("-{l}")).collect();
            let known = if known.is_empty() { "nothing".into() } else { known.join(", ") };
            return Err(Failure::Usage(format!("class {class} has no option -{letter}; it has {known}")));
        }
        let uprilim = self.number('m')?;
        let upri = self.number('p')?;
        let request = match class {
            Class::Sys => {
                let hint = "SYS is for the kernel's own threads; no other thread enters it";
                return Err(Failure::Said("Invalid or unconfigured class SYS".into(), Some(hint.into())));
            }
            Class::Ts => ClassRequest::Ts { uprilim, upri },
            Class::Fss => ClassRequest::Fss { uprilim, upri },
            Class::Ia => ClassRequest::Ia { uprilim, upri, foreground: self.mode()? },
            Class::Fx => ClassRequest::Fx { uprilim, upri, quantum: self.slice(hz)? },
            Class::Rt => ClassRequest::Rt { pri: upri, quantum: self.slice(hz)?, tqsig: self.signal()? },
        };
        in_range(&request)?;
        Ok(request)
    }

    fn number(&self, letter: char) -> Result<Option<i32>, Failure> {
        let number = |word: &str| {
            word.parse().map_err(|_| Failure::Usage(format!("`{word}` behind -{letter} is no whole number")))
        };
        self.value(letter).map(number).transpose()
    }

    fn mode(&self) -> Result<Option<bool>, Failure> {
        match self.value('t') {
            None => Ok(None),
            Some("0") => Ok(Some(false)),
            Some("1") => Ok(Some(true)),
            Some(word) => {
                Err(Failure::Usage(format!("`{word}` behind -t is no mode; 1 is foreground, 0 background")))
            }
        }
    }

    fn slice(&self, hz: u32) -> Result<Option<Quantum>, Failure> {
        let Some(word) = self.value('t') else {
            return match self.value('r') {
                Some(_) => Err(Failure::Usage("-r goes with -t".into())),
                None => Ok(None),
            };
        };
        let res =
            self.value('r').map_or(Ok(RES_DEFAULT), str::parse).ok().filter(|r| (1..=RES_MAX).contains(r));
        let Some(res) = res else {
            return Err(Failure::Usage(format!("a resolution is 1 to {RES_MAX} units in a second")));
        };
        let units = word.parse::<i32>().ok().and_then(|units| u32::try_from(units).ok());
        match units.and_then(|units| quantum(units, res, hz)) {
            Some(slice) => Ok(Some(slice)),
            None => Err(Failure::Usage(format!(
                "`{word}` behind -t is no slice: it is a whole number of units from 1"
            ))),
        }
    }

    fn signal(&self) -> Result<Option<u8>, Failure> {
        let known = |word: &str| {
            signal(word).ok_or_else(|| {
                Failure::Usage(format!(
                    "`{word}` behind -q is no signal; they are 1 to 72, or names such as XCPU"
                ))
            })
        };
        self.value('q').map(known).transpose()
    }
}

/// The request for all parameters at once, in the form of plans and saved machines: `RT 10 infinite 0`.
///
/// # Errors
/// [`Failure`] for any other text.
pub(super) fn whole(text: &str) -> Result<ClassRequest, Failure> {
    let params: ClassParams =
        text.parse().map_err(|error: NoSuchParams| Failure::Operand(error.to_string()))?;
    let number = |number: i8| Some(i32::from(number));
    Ok(match params {
        ClassParams::Sys => Options { given: Vec::new() }.request(Class::Sys, 0)?,
        ClassParams::Ts { uprilim, upri } => {
            ClassRequest::Ts { uprilim: number(uprilim), upri: number(upri) }
        }
        ClassParams::Fss { uprilim, upri } => {
            ClassRequest::Fss { uprilim: number(uprilim), upri: number(upri) }
        }
        ClassParams::Ia { uprilim, upri, foreground } => {
            ClassRequest::Ia { uprilim: number(uprilim), upri: number(upri), foreground: Some(foreground) }
        }
        ClassParams::Fx { uprilim, upri, quantum } => {
            ClassRequest::Fx { uprilim: number(uprilim), upri: number(upri), quantum: Some(quantum) }
        }
        ClassParams::Rt { pri, quantum, tqsig } => {
            ClassRequest::Rt { pri: number(pri), quantum: Some(quantum), tqsig: Some(tqsig) }
        }
    })
}

fn letters(class: Class) -> &'static [char] {
    match class {
        Class::Sys => &[],
        Class::Ts | Class::Fss => &['m', 'p'],
        Class::Ia => &['m', 'p', 't'],
        Class::Fx => &['m', 'p', 't', 'r'],
        Class::Rt => &['p', 't', 'r', 'q'],
    }
}

/// Refuses values that are out of range, before any change. FX clamps them instead.
fn in_range(request: &ClassRequest) -> Result<(), Failure> {
    let tables = millpond_formats::dispadmin::default_tables(false);
    let tried = request.apply(ClassParams::Sys, &tables);
    tried.map(drop).map_err(|error| Failure::Said(error.to_string(), None))
}
