//! `poolcfg` scripts (poolcfg(8)), executed command by command on a configuration.
//!
//! Nothing is saved here: the caller saves [`Script::editor`] after all commands succeeded. Three commands act at once, as on
//! Solaris, through [`Surroundings`]: `create system` and `discover` write the machine's configuration to the file, `destroy system` removes the
//! file. On a machine they edit like all other commands.

use crate::dynamic::{emptied_conf, exported};
use crate::edit::{Editor, Element, Place};
use crate::error::{Code, PoolError};
use millpond_formats::pools::objectives;
use millpond_formats::pools::properties::{Takes, name_property, rule, takes};
use millpond_formats::pools::script::{Command, Entity, Located, PropEdit, PropEdits};
use millpond_model::CpuId;
use millpond_model::pools::{ElementKind, PoolsConf, PropValue, is_element_name};

/// A failure as text: that of libpool, or a further one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The error.
    pub text: String,
    /// A remedy.
    pub hint: Option<String>,
}

impl From<PoolError> for Said {
    fn from(error: PoolError) -> Self {
        Said { text: error.to_string(), hint: error.hint }
    }
}

/// Operations that a script needs in addition to editing.
pub trait Surroundings {
    /// The configuration of the machine.
    ///
    /// # Errors
    /// If pools are disabled, or the machine cannot be read.
    fn machine(&mut self) -> Result<PoolsConf, Said>;

    /// Writes the file now.
    ///
    /// # Errors
    /// If it cannot be written; it is unchanged then.
    fn write(&mut self, conf: &PoolsConf) -> Result<(), Said>;

    /// Removes the file now.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn remove(&mut self) -> Result<(), Said>;
}

/// A failed command, or a note about a completed one, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
    /// The text of Solaris.
    pub what: String,
    /// The details of this case, and a remedy.
    pub hint: Option<String>,
}

/// A script in execution.
#[derive(Debug, Clone)]
pub struct Script {
    /// `None` while there is no file.
    editor: Option<Editor>,
    place: Place,
    /// The name of the place in messages.
    name: String,
    edited: bool,
    notes: Vec<Told>,
}

fn told<T>(place: &Located<T>, what: impl Into<String>, hint: Option<String>) -> Told {
    Told { line: place.line, column: place.column, what: what.into(), hint }
}

/// For `map_err`: puts a text in front of the error.
fn because<'p, T, E: Into<Said>>(
    place: &'p Located<T>,
    what: String,
) -> impl FnOnce(E) -> Told + use<'p, T, E> {
    move |error| {
        let Said { text, hint } = error.into();
        told(place, format!("{what}: {text}"), hint)
    }
}

/// The word for an unknown set: the texts of poolcfg(8) differ by command.
#[derive(Clone, Copy)]
enum Noun {
    Resource,
    Pset,
}

impl Script {
    /// Starts with the stored configuration; `None` is a missing file. `name` is the name of the place in messages.
    #[must_use]
    pub fn new(conf: Option<PoolsConf>, place: Place, name: &str) -> Self {
        let editor = conf.map(|conf| Editor::new(conf, place));
        Script { editor, place, name: name.to_owned(), edited: false, notes: Vec::new() }
    }

    /// The current configuration.
    #[must_use]
    pub fn editor(&self) -> Option<&Editor> {
        self.editor.as_ref()
    }

    /// Whether there is something to save.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        self.edited
    }

    /// Notes for the user about completed commands; each is returned once.
    pub fn take_notes(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.notes)
    }

    /// Executes one command. Returns the element to show, if any.
    ///
    /// # Errors
    /// [`Told`]: the command failed, and nothing should be saved.
    pub fn execute(
        &mut self,
        command: &Located<Command>,
        around: &mut dyn Surroundings,
    ) -> Result<Option<Element>, Told> {
        match &command.value {
            Command::Create { entity, props } if entity.kind == ElementKind::System => {
                self.create_system(&entity.name, around)?;
                self.change(&mut Element::System(entity.name.value.clone()), props)?;
                return Ok(None);
            }
            Command::Discover => {
                self.discover(command, around)?;
                return Ok(None);
            }
            _ => {}
        }
        let Some(editor) = &mut self.editor else {
            let hint = format!("poolcfg -c discover {} writes what the machine has", self.name);
            let what = format!("cannot load configuration from {}: No such file or directory", self.name);
            return Err(told(command, what, Some(hint)));
        };
        match &command.value {
            Command::Info(None) => return Ok(Some(Element::System(editor.conf.system.name.clone()))),
            Command::Info(Some(entity)) => return located(editor, entity, Noun::Resource).map(Some),
            Command::Create { entity, props } => {
                let mut element = create(editor, entity)?;
                self.change(&mut element, props)?;
            }
            Command::Modify { entity, props } => {
                let mut element = located(editor, entity, Noun::Resource)?;
                self.change(&mut element, props)?;
            }
            Command::Destroy(entity) => return self.destroy(entity, around).map(|()| None),
            Command::Rename { entity, to } => {
                let element = located(editor, entity, Noun::Pset)?;
                let what = format!("put property {} failed", name_property(element.kind()));
                editor.rename(&element, &to.value).map_err(because(to, what))?;
            }
            Command::Associate { pool, psets } => associate(editor, pool, psets)?,
            Command::TransferCpus { to, cpus } => transfer_cpus(editor, to, cpus)?,
            Command::TransferCount { count, from, to } => {
                there_is_set(editor, from, Noun::Resource)?;
                there_is_set(editor, to, Noun::Resource)?;
                let what = format!("cannot transfer {count} from {} to {}", from.value, to.value);
                editor.transfer(*count, &from.value, &to.value).map_err(because(command, what))?;
            }
            Command::Discover => {}
        }
        self.edited = true;
        Ok(None)
    }

    fn create_system(&mut self, name: &Located<String>, around: &mut dyn Surroundings) -> Result<(), Told> {
        let what = || format!("cannot create the configuration, {}", name.value);
        if self.place == Place::Machine {
            let hint = "the machine has its configuration; rename system gives it another name";
            return Err(because(name, what())(PoolError::hinted(Code::BadParam, hint)));
        }
        if !is_element_name(&name.value) {
            return Err(because(name, what())(PoolError::new(Code::BadParam)));
        }
        let mut conf = around.machine().map_err(because(name, what()))?;
        conf.system.name.clone_from(&name.value);
        self.write(conf, around).map_err(because(name, what()))
    }

    fn discover(&mut self, command: &Located<Command>, around: &mut dyn Surroundings) -> Result<(), Told> {
        if self.place == Place::Machine {
            return Ok(());
        }
        let what = || "cannot discover the configuration".to_owned();
        let conf = around.machine().map_err(because(command, what()))?;
        self.write(conf, around).map_err(because(command, what()))
    }

    /// Writes the configuration of the machine to the file, at once.
    fn write(&mut self, conf: PoolsConf, around: &mut dyn Surroundings) -> Result<(), Said> {
        let conf = exported(conf);
        around.write(&conf)?;
        self.editor = Some(Editor::new(conf, self.place));
        self.edited = false;
        Ok(())
    }

    fn destroy(&mut self, entity: &Entity, around: &mut dyn Surroundings) -> Result<(), Told> {
        let Some(editor) = &mut self.editor else { return Ok(()) };
        let element = located(editor, entity, Noun::Pset)?;
        let what = format!("cannot destroy the {}, {}", entity.kind, entity.name.value);
        let done = match &element {
            Element::Pool(name) => editor.destroy_pool(name),
            Element::Pset(name) => editor.destroy_pset(name),
            Element::System(_) if self.place == Place::Machine => {
                emptied_conf(&mut editor.conf);
                Ok(())
            }
            Element::System(_) => {
                let what = format!("cannot destroy the configuration, {}", entity.name.value);
                around.remove().map_err(because(&entity.name, what))?;
                self.editor = None;
                self.edited = false;
                return Ok(());
            }
            Element::Cpu(_) => Err(PoolError::new(Code::BadParam)),
        };
        done.map_err(because(&entity.name, what))?;
        self.edited = true;
        Ok(())
    }

    /// Sets properties in their order. Of a minimum and a maximum, the one that keeps them ordered is set first.
    fn change(&mut self, element: &mut Element, edits: &PropEdits) -> Result<(), Told> {
        let Some(editor) = &mut self.editor else { return Ok(()) };
        let bounds = bounds_first(editor, element, edits);
        for edit in &bounds {
            put(editor, element, edit)?;
        }
        for edit in edits {
            if !bounds.is_empty() && is_bound(edit).is_some() {
                continue;
            }
            put(editor, element, edit)?;
            self.notes.extend(objections(element.kind(), edit));
        }
        if !edits.is_empty() {
            self.edited = true;
        }
        Ok(())
    }
}

fn create(editor: &mut Editor, entity: &Entity) -> Result<Element, Told> {
    let name = &entity.name.value;
    let (done, element) = match entity.kind {
        ElementKind::Pset => (editor.create_pset(name), Element::Pset(name.clone())),
        _ => (editor.create_pool(name), Element::Pool(name.clone())),
    };
    let what = format!("cannot create the {}, {name}", entity.kind);
    done.map_err(because(&entity.name, what))?;
    Ok(element)
}

fn associate(editor: &mut Editor, pool: &Located<String>, psets: &[Located<String>]) -> Result<(), Told> {
    there_is_pool(editor, pool)?;
    for set in psets {
        there_is_set(editor, set, Noun::Pset)?;
        let what = format!("cannot associate resource {} to pool", set.value);
        editor.associate(&pool.value, Some(&set.value)).map_err(because(set, what))?;
    }
    Ok(())
}

fn transfer_cpus(editor: &mut Editor, to: &Located<String>, cpus: &[Located<String>]) -> Result<(), Told> {
    there_is_set(editor, to, Noun::Resource)?;
    for name in cpus {
        let cpu = there_is_cpu(editor, name)?;
        let what = format!("cannot transfer component {} to {}", name.value, to.value);
        editor.transfer_cpu(cpu, &to.value).map_err(because(name, what))?;
    }
    Ok(())
}

/// The element that a command names.
fn located(editor: &Editor, entity: &Entity, noun: Noun) -> Result<Element, Told> {
    let name = &entity.name;
    match entity.kind {
        ElementKind::System if name.value == editor.conf.system.name => {
            Ok(Element::System(name.value.clone()))
        }
        ElementKind::System => {
            let hint = format!("it is called {}", editor.conf.system.name);
            Err(told(name, format!("incorrect system name supplied: {}", name.value), Some(hint)))
        }
        ElementKind::Pool => there_is_pool(editor, name).map(|()| Element::Pool(name.value.clone())),
        ElementKind::Pset => there_is_set(editor, name, noun).map(|()| Element::Pset(name.value.clone())),
        ElementKind::Cpu => there_is_cpu(editor, name).map(Element::Cpu),
    }
}

fn there_is_pool(editor: &Editor, name: &Located<String>) -> Result<(), Told> {
    match editor.conf.pool(&name.value) {
        Some(_) => Ok(()),
        None => Err(because(name, format!("cannot locate the pool, {}", name.value))(editor.no_such_pool())),
    }
}

fn there_is_set(editor: &Editor, name: &Located<String>, noun: Noun) -> Result<(), Told> {
    let noun = match noun {
        Noun::Resource => "resource",
        Noun::Pset => "pset",
    };
    match editor.conf.pset(&name.value) {
        Some(_) => Ok(()),
        None => {
            Err(because(name, format!("cannot locate the {noun}, {}", name.value))(editor.no_such_pset()))
        }
    }
}

fn there_is_cpu(editor: &Editor, name: &Located<String>) -> Result<CpuId, Told> {
    let what = format!("cannot locate the cpu, {}", name.value);
    if name.value.bytes().any(|b| !b.is_ascii_digit()) {
        let hint = editor.no_such_cpu().hint;
        return Err(told(name, format!("{what}: CPU id should only contain digits"), hint));
    }
    match name.value.parse().ok().map(CpuId).filter(|cpu| editor.conf.pset_with(*cpu).is_some()) {
        Some(cpu) => Ok(cpu),
        None => Err(because(name, what)(editor.no_such_cpu())),
    }
}

/// The last minimum and the last maximum of a list that has both, in the order in which they can be set; empty for any other list.
fn bounds_first(editor: &Editor, element: &Element, edits: &PropEdits) -> Vec<Located<PropEdit>> {
    let Element::Pset(name) = element else { return Vec::new() };
    let last = |of| edits.iter().rfind(|edit| is_bound(edit).is_some_and(|(which, _)| which == of));
    let (Some(min), Some(max), Some(set)) =
        (last(Takes::Minimum), last(Takes::Maximum), editor.conf.pset(name))
    else {
        return Vec::new();
    };
    // The new minimum may be above the old maximum.
    let raises = is_bound(min).is_some_and(|(_, value)| value > set.max);
    if raises { vec![max.clone(), min.clone()] } else { vec![min.clone(), max.clone()] }
}

/// The bound that a property edit sets, with its value.
fn is_bound(edit: &Located<PropEdit>) -> Option<(Takes, u64)> {
    let PropEdit::Set(name, PropValue::Uint(value)) = &edit.value else { return None };
    Some((takes(name), *value)).filter(|(which, _)| matches!(which, Takes::Minimum | Takes::Maximum))
}

/// Sets one property. After a new name the element has that name.
fn put(editor: &mut Editor, element: &mut Element, edit: &Located<PropEdit>) -> Result<(), Told> {
    match &edit.value {
        PropEdit::Remove(name) => {
            let what = format!("remove property {name} failed");
            editor.remove(element, name).map_err(because(edit, what))
        }
        PropEdit::Set(name, value) => {
            let what = format!("put property {name} failed");
            editor.put(element, name, value.clone()).map_err(because(edit, what))?;
            if let (PropValue::String(new), true) = (value, *name == name_property(element.kind())) {
                match element {
                    Element::System(name) | Element::Pool(name) | Element::Pset(name) => name.clone_from(new),
                    Element::Cpu(_) => {}
                }
            }
            Ok(())
        }
    }
}

/// Notes about objectives that poold will ignore.
fn objections(kind: ElementKind, edit: &Located<PropEdit>) -> Vec<Told> {
    let PropEdit::Set(name, PropValue::String(text)) = &edit.value else { return Vec::new() };
    if rule(kind, name).is_none() || takes(name) != Takes::Objectives {
        return Vec::new();
    }
    let warnings = objectives::parse(text, kind).warnings;
    warnings.iter().map(|warning| told(edit, warning.to_string(), Some(warning.hint()))).collect()
}
