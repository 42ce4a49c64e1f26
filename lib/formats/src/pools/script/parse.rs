//! The parser: converts the tokens of a script to commands.

use super::lexer::{Kind, Lexer, Token};
use super::{Command, Entity, Located, NAME, PropEdit, PropEdits, SyntaxError, SyntaxFault};
use millpond_model::pools::{ElementKind, PropValue, ValueType};

const COMMAND: &str = "a command: info, create, destroy, modify, associate, transfer, discover or rename";
const LIST_OR_COMMAND: &str =
    "a list in ( ) or a command: info, create, destroy, modify, associate, transfer, discover or rename";
const THREE: &str = "system, pool or pset";
const FOUR: &str = "system, pool, pset or cpu";
const CPU_NAME: &str = "the number of a processor";
const PROPERTY: &str = "a property: boolean, int, uint, string or float, or ~ to remove one";
const TYPE: &str = "a type: boolean, int, uint, string or float";
const TRANSFER: &str = "to, or how many processors";
/// The expectation after the second of `from` and `to`, where the kind is known from the first.
const ALONE: &str = "the name alone here, without its kind in front";
const COUNTED: &str = "from pset or to pset";
const END_OF_LIST: &str = "; or )";

/// Parses a script. The result has at least one command.
///
/// # Errors
/// [`SyntaxError`] with the first error.
pub fn parse(text: &str) -> Result<Vec<Located<Command>>, SyntaxError> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token };
    let mut commands = Vec::new();
    let mut expected = COMMAND;
    while commands.is_empty() || parser.token.kind != Kind::End {
        let (line, column) = (parser.token.line, parser.token.column);
        let value = parser.command(expected)?;
        expected = if value.may_go_on() { LIST_OR_COMMAND } else { COMMAND };
        commands.push(Located { line, column, value });
    }
    Ok(commands)
}

impl Command {
    /// Whether an optional list may still follow.
    fn may_go_on(&self) -> bool {
        match self {
            Command::Create { props, .. } | Command::Modify { props, .. } => props.is_empty(),
            Command::Associate { psets: list, .. } | Command::TransferCpus { cpus: list, .. } => {
                list.is_empty()
            }
            _ => false,
        }
    }
}

/// The tokens, and the next one.
struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
}

impl<'a> Parser<'a> {
    fn command(&mut self, expected: &'static str) -> Result<Command, SyntaxError> {
        let word = if self.token.kind == Kind::Fixed { self.token.text } else { "" };
        match word {
            "info" => {
                self.take()?;
                let named = self.kind(true).is_some();
                Ok(Command::Info(if named { Some(self.entity(true)?) } else { None }))
            }
            "create" => {
                self.take()?;
                Ok(Command::Create { entity: self.entity(false)?, props: self.props()? })
            }
            "destroy" => {
                self.take()?;
                Ok(Command::Destroy(self.entity(false)?))
            }
            "modify" => {
                self.take()?;
                Ok(Command::Modify { entity: self.entity(true)?, props: self.props()? })
            }
            "associate" => {
                self.take()?;
                self.word("pool")?;
                let pool = self.name(NAME)?;
                Ok(Command::Associate { pool, psets: self.list(|p| p.element("pset", NAME))? })
            }
            "transfer" => {
                self.take()?;
                self.transfer()
            }
            "discover" => {
                self.take()?;
                Ok(Command::Discover)
            }
            "rename" => {
                self.take()?;
                let entity = self.entity(false)?;
                self.word("to")?;
                Ok(Command::Rename { entity, to: self.name_alone()? })
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn transfer(&mut self) -> Result<Command, SyntaxError> {
        if self.token.is("to") {
            self.take()?;
            let to = self.element("pset", NAME)?;
            return Ok(Command::TransferCpus { to, cpus: self.list(|p| p.element("cpu", CPU_NAME))? });
        }
        if self.token.kind != Kind::Uint {
            return Err(self.unexpected(TRANSFER));
        }
        let number = self.token;
        let count = number.text.parse().map_err(|_| number.error(SyntaxFault::Range(ValueType::Uint)))?;
        self.take()?;
        if self.token.is("from") {
            self.take()?;
            let from = self.element("pset", NAME)?;
            self.word("to")?;
            return Ok(Command::TransferCount { count, from, to: self.name_alone()? });
        }
        if !self.token.is("to") {
            return Err(self.unexpected(COUNTED));
        }
        self.take()?;
        let to = self.element("pset", NAME)?;
        self.word("from")?;
        Ok(Command::TransferCount { count, from: self.name_alone()?, to })
    }

    /// A name without kind, where the kind is known.
    fn name_alone(&mut self) -> Result<Located<String>, SyntaxError> {
        if self.kind(true).is_some() { Err(self.unexpected(ALONE)) } else { self.name(NAME) }
    }

    /// The next token as a kind, if it is one.
    fn kind(&self, with_cpu: bool) -> Option<ElementKind> {
        let all = [ElementKind::System, ElementKind::Pool, ElementKind::Pset, ElementKind::Cpu];
        let count = if with_cpu { 4 } else { 3 };
        all.into_iter().take(count).find(|kind| self.token.is(kind.word()))
    }

    fn entity(&mut self, with_cpu: bool) -> Result<Entity, SyntaxError> {
        let expected = if with_cpu { FOUR } else { THREE };
        let kind = self.kind(with_cpu).ok_or_else(|| self.unexpected(expected))?;
        self.take()?;
        let name = self.name(if kind == ElementKind::Cpu { CPU_NAME } else { NAME })?;
        Ok(Entity { kind, name })
    }

    /// Parses `pset webset` or `cpu 3`; returns the name.
    fn element(
        &mut self,
        kind: &'static str,
        expected: &'static str,
    ) -> Result<Located<String>, SyntaxError> {
        self.word(kind)?;
        self.name(expected)
    }

    /// A name; that of a CPU may consist of digits.
    fn name(&mut self, expected: &'static str) -> Result<Located<String>, SyntaxError> {
        let is_number = expected == CPU_NAME && self.token.kind == Kind::Uint;
        if self.token.kind != Kind::Name && !is_number {
            return Err(self.unexpected(expected));
        }
        let Token { text, line, column, .. } = self.take()?;
        Ok(Located { line, column, value: text.to_owned() })
    }

    fn props(&mut self) -> Result<PropEdits, SyntaxError> {
        self.list(|parser| {
            let (line, column) = (parser.token.line, parser.token.column);
            let value = parser.prop()?;
            Ok(Located { line, column, value })
        })
    }

    fn prop(&mut self) -> Result<PropEdit, SyntaxError> {
        if self.token.is("~") {
            self.take()?;
            self.value_type(TYPE)?;
            return Ok(PropEdit::Remove(self.name(NAME)?.value));
        }
        let value_type = self.value_type(PROPERTY)?;
        let name = self.name(NAME)?.value;
        self.word("=")?;
        let value = self.value(value_type)?;
        Ok(PropEdit::Set(name, value))
    }

    fn value_type(&mut self, expected: &'static str) -> Result<ValueType, SyntaxError> {
        let found = ValueType::ALL.into_iter().find(|t| self.token.is(t.word()));
        let found = found.ok_or_else(|| self.unexpected(expected))?;
        self.take()?;
        Ok(found)
    }

    fn value(&mut self, value_type: ValueType) -> Result<PropValue, SyntaxError> {
        let (token, text) = (self.token, self.token.text);
        let range = || token.error(SyntaxFault::Range(value_type));
        let value = match (value_type, token.kind) {
            (ValueType::Uint, Kind::Uint) => PropValue::Uint(text.parse().map_err(|_| range())?),
            (ValueType::Int, Kind::Uint | Kind::Int) => PropValue::Int(text.parse().map_err(|_| range())?),
            (ValueType::Float, Kind::Uint | Kind::Int | Kind::Float) => {
                let number: Option<f64> = text.parse().ok();
                PropValue::Float(number.filter(|n| n.is_finite()).ok_or_else(range)?)
            }
            (ValueType::Boolean, Kind::Name) if text == "true" => PropValue::Boolean(true),
            (ValueType::Boolean, Kind::Name) if text == "false" => PropValue::Boolean(false),
            (ValueType::String, Kind::Quoted) => PropValue::String(text[1..text.len() - 1].to_owned()),
            _ => return Err(self.unexpected(literal(value_type))),
        };
        self.take()?;
        Ok(value)
    }

    /// The items between `(` and `)`, separated by `;`; empty without `(`.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<Vec<T>, SyntaxError> {
        let mut items = Vec::new();
        if !self.token.is("(") {
            return Ok(items);
        }
        while items.is_empty() || self.token.is(";") {
            self.take()?;
            items.push(item(self)?);
        }
        if !self.token.is(")") {
            return Err(self.unexpected(END_OF_LIST));
        }
        self.take()?;
        Ok(items)
    }

    fn word(&mut self, word: &'static str) -> Result<(), SyntaxError> {
        if !self.token.is(word) {
            return Err(self.unexpected(word));
        }
        self.take()?;
        Ok(())
    }

    fn take(&mut self) -> Result<Token<'a>, SyntaxError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn unexpected(&self, expected: &'static str) -> SyntaxError {
        let end = self.token.kind == Kind::End;
        self.token.error(if end {
            SyntaxFault::End { expected }
        } else {
            SyntaxFault::Unexpected { expected }
        })
    }
}

fn literal(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Uint => "a whole number from 0",
        ValueType::Int => "a whole number",
        ValueType::Float => "a number",
        ValueType::Boolean => "true or false",
        ValueType::String => "a string in \"\"",
    }
}
