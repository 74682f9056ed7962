//! A table as Parquet.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::{Cell, Table};

/// What the cells of a column have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Counts alone: 64-bit integers.
    Counts,
    /// Numbers: 64-bit floating point.
    Numbers,
    /// Words: text.
    Words,
}

impl Table {
    /// As a Parquet file: the columns of [`Table::to_csv`] under the same names, integers where all
    /// cells are counts, floating-point numbers where some are measurements, text elsewhere. What is
    /// not known, or not finite, is null.
    ///
    /// The same table gives the same bytes.
    ///
    /// # Errors
    /// When there is no column, which the format does not allow.
    pub fn to_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let kinds: Vec<Kind> = (0..self.columns.len()).map(|column| self.kind(column)).collect();
        let fields: Result<Vec<TypePtr>, ParquetError> =
            self.names().iter().zip(&kinds).map(|(name, kind)| kind.field(name)).collect();
        let schema = Type::group_type_builder("table").with_fields(fields?).build()?;
        let created = format!("ebb {}", env!("CARGO_PKG_VERSION"));
        let properties = WriterProperties::builder().set_created_by(created).build();
        let mut file =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for (column, kind) in kinds.into_iter().enumerate() {
            let mut writer = group
                .next_column()?
                .ok_or_else(|| ParquetError::General("a column without a writer".to_owned()))?;
            self.put(column, kind, &mut writer)?;
            writer.close()?;
        }
        group.close()?;
        file.into_inner()
    }

    /// The headings; those that occur again have their number behind them, since names are how
    /// columns are found.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let mut name = column.heading();
            if name.is_empty() || names.contains(&name) {
                name = format!("{name} {}", index + 1).trim_start().to_owned();
            }
            names.push(name);
        }
        names
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().map(move |row| &row[column])
    }

    fn kind(&self, column: usize) -> Kind {
        let counts = |cell: &Cell| match cell {
            Cell::Count(count) => i64::try_from(*count).is_ok(),
            Cell::Missing => true,
            Cell::Text(_) | Cell::Number(_) => false,
        };
        let has_counts = self.cells(column).any(|cell| matches!(cell, Cell::Count(_)));
        if self.cells(column).any(|cell| matches!(cell, Cell::Text(_))) {
            Kind::Words
        } else if has_counts && self.cells(column).all(counts) {
            Kind::Counts
        } else if has_counts || self.columns[column].numeric {
            Kind::Numbers
        } else {
            Kind::Words
        }
    }

    fn put(
        &self,
        column: usize,
        kind: Kind,
        writer: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        match kind {
            Kind::Counts => write::<Int64Type>(
                writer,
                self.cells(column).map(|cell| match cell {
                    Cell::Count(count) => i64::try_from(*count).ok(),
                    _ => None,
                }),
            ),
            Kind::Numbers => write::<DoubleType>(
                writer,
                self.cells(column).map(|cell| match cell {
                    Cell::Count(count) => Some(*count as f64),
                    Cell::Number(value) => Some(*value).filter(|value| value.is_finite()),
                    _ => None,
                }),
            ),
            Kind::Words => write::<ByteArrayType>(
                writer,
                self.cells(column).map(|cell| {
                    let missing = matches!(cell, Cell::Missing);
                    (!missing).then(|| ByteArray::from(cell.exact().into_bytes()))
                }),
            ),
        }
    }
}

impl Kind {
    fn field(self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self {
            Kind::Counts => (Physical::INT64, None),
            Kind::Numbers => (Physical::DOUBLE, None),
            Kind::Words => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        Ok(Arc::new(field.build()?))
    }
}

/// Values and where they are: 1 for each that is there, 0 for each that is not.
fn write<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut values, mut there) = (Vec::new(), Vec::new());
    for cell in cells {
        there.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    writer.typed::<T>().write_batch(&values, Some(&there), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    fn table() -> Table {
        let columns = [
            Column::text("mode"),
            Column::number("energy", "J", 1),
            Column::count("sent"),
            Column::count("sent"),
        ];
        let mut table = Table::new("Modes", columns);
        table.row(["napi, \"deep\"".into(), 1234.5678.into(), 1_000_000u64.into(), 3u64.into()]);
        table.row([Cell::Missing, f64::NAN.into(), Cell::Missing, 0.5.into()]);
        table
    }

    #[test]
    fn what_is_read_back_is_what_was_written() {
        let bytes = table().to_parquet().expect("written");
        assert_eq!(bytes, table().to_parquet().expect("written"), "the same bytes");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
        let rows: Vec<Vec<(String, Field)>> = reader
            .get_row_iter(None)
            .expect("rows")
            .map(|row| row.expect("a row").into_columns())
            .collect();
        let names: Vec<&str> = rows[0].iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["mode", "energy (J)", "sent", "sent 4"]);
        let fields = |row: usize| rows[row].iter().map(|(_, field)| field.clone());
        let first = [
            Field::Str("napi, \"deep\"".into()),
            Field::Double(1234.5678),
            Field::Long(1_000_000),
            Field::Double(3.0),
        ];
        assert!(fields(0).eq(first));
        assert!(fields(1).eq([Field::Null, Field::Null, Field::Null, Field::Double(0.5)]));
    }

    #[test]
    fn a_table_without_rows_keeps_its_columns() {
        let bytes = Table::new("t", [Column::count("a"), Column::text("b")]).to_parquet();
        let reader =
            SerializedFileReader::new(bytes::Bytes::from(bytes.expect("written"))).expect("a file");
        assert_eq!(reader.metadata().file_metadata().schema_descr().num_columns(), 2);
        assert_eq!(reader.get_row_iter(None).expect("rows").count(), 0);
    }
}
