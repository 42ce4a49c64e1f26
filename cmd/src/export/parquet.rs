//! Writes a table of a recording as a Parquet file.

use super::walk::Walk;
use super::{HEADS, Wanted};
use millpond_observe::Value;
use millpond_observe::catalogue::{Entity, fields};
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

/// The number of rows per row group.
const GROUP_ROWS: usize = 1 << 16;

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
enum Column {
    Numbers(Vec<Option<f64>>),
    Texts(Vec<Option<ByteArray>>),
}

/// Writes the requested table. Fields that never contain text are written as numbers, the others as text. The
/// recording is read twice: the first pass finds out which fields contain text.
///
/// # Errors
/// The reason why the file cannot be written.
pub fn write(wanted: &Wanted<'_>, walk: &mut Walk<'_>, file: impl Write + Send) -> Result<(), String> {
    let told = |error: ParquetError| match error {
        ParquetError::External(error) => error.to_string(),
        other => other.to_string(),
    };
    let is_text = texts(wanted.entity, &mut wanted.walk());
    let schema = parse_message_type(&message(wanted.entity, &is_text)).map_err(told)?;
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(told)?;
    let mut columns = empty(&is_text);
    let mut rows = 0;
    while let Some(interval) = walk.next_of(wanted.entity) {
        let elapsed = interval.elapsed.map(millpond_model::Nanos::as_secs_f64);
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are below 2^53")]
        let heads = [Some(interval.wall.0 as f64), Some(interval.at.as_secs_f64()), elapsed];
        for row in interval.frame.rows(wanted.entity) {
            let heads = heads.iter().map(|head| head.map_or(Value::Unknown, Value::Number));
            for (column, value) in columns.iter_mut().zip(heads.chain(row.values().iter().cloned())) {
                column.push(&value);
            }
            rows += 1;
        }
        if rows >= GROUP_ROWS {
            group(&mut writer, &std::mem::replace(&mut columns, empty(&is_text))).map_err(told)?;
            rows = 0;
        }
    }
    if rows > 0 {
        group(&mut writer, &columns).map_err(told)?;
    }
    writer.close().map(drop).map_err(told)
}

/// For each field, whether it contains text.
fn texts(entity: Entity, walk: &mut Walk<'_>) -> Vec<bool> {
    let mut is_text = vec![false; fields(entity).len()];
    while let Some(interval) = walk.next_of(entity) {
        for row in interval.frame.rows(entity) {
            for (is_text, value) in is_text.iter_mut().zip(row.values()) {
                *is_text |= matches!(value, Value::Text(_) | Value::Histogram(_));
            }
        }
    }
    is_text
}

fn message(entity: Entity, is_text: &[bool]) -> String {
    let [time, up, interval] = HEADS;
    let mut text = format!(
        "message frames {{ REQUIRED DOUBLE {time}; REQUIRED DOUBLE {up}; OPTIONAL DOUBLE {interval};"
    );
    for (field, is_text) in fields(entity).iter().zip(is_text) {
        let kind = if *is_text { ("BYTE_ARRAY", " (UTF8)") } else { ("DOUBLE", "") };
        let _ = write!(text, " OPTIONAL {} {}{};", kind.0, field.name, kind.1);
    }
    text + " }"
}

fn empty(is_text: &[bool]) -> Vec<Column> {
    let fields = is_text.iter().map(|is_text| match is_text {
        true => Column::Texts(Vec::new()),
        false => Column::Numbers(Vec::new()),
    });
    std::iter::repeat_n(Column::Numbers(Vec::new()), 3).chain(fields).collect()
}

impl Column {
    fn push(&mut self, value: &Value) {
        match (self, value) {
            (Column::Numbers(column), Value::Number(number)) => column.push(Some(*number)),
            (Column::Numbers(column), _) => column.push(None),
            (Column::Texts(column), Value::Text(text)) => column.push(Some(ByteArray::from(&**text))),
            (Column::Texts(column), Value::Number(number)) => {
                column.push(Some(number.to_string().as_str().into()))
            }
            (Column::Texts(column), Value::Histogram(histogram)) => {
                column.push(Some(super::buckets(histogram).as_str().into()));
            }
            (Column::Texts(column), Value::Unknown) => column.push(None),
        }
    }
}

fn group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: &[Column],
) -> Result<(), ParquetError> {
    let mut group: SerializedRowGroupWriter<'_, W> = writer.next_row_group()?;
    for (index, column) in columns.iter().enumerate() {
        let Some(mut into) = group.next_column()? else { break };
        // The first two columns always have a value. The others have a flag per row.
        let is_optional = index >= 2;
        match (column, into.untyped()) {
            (Column::Numbers(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                let there: Vec<f64> = values.iter().flatten().copied().collect();
                let levels = levels(values);
                let _ = writer.write_batch(&there, is_optional.then_some(&levels), None)?;
            }
            (Column::Texts(values), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let there: Vec<ByteArray> = values.iter().flatten().cloned().collect();
                let _ = writer.write_batch(&there, Some(&levels(values)), None)?;
            }
            _ => return Err(ParquetError::General("a column is not of its kind".into())),
        }
        into.close()?;
    }
    group.close().map(drop)
}

fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}
