//! Prepared statements: what was described at open, and the bytes that execute them.

use plimsoll_core::tables::{Shape, SqlOperation};
use plimsoll_core::{Call, Dialect, KvCall, OpKind, RecordsCall, StoreError, Value, ValueBuf, Values, sql};

use super::message::{self, EXECUTE, Reader, cstr, frame, parse, patch_length};
use super::session::Protocol;
use super::text::{Text, plain};
use super::text_value;
use super::value::{Code, Format, decode, encode};

/// Asks for the columns of the unnamed portal.
const DESCRIBE_PORTAL: [u8; 7] = [b'D', 0, 0, 0, 6, b'P', 0];

/// A statement as the server knows it. What executes it is laid out once; an operation copies that and
/// fills in the values.
#[derive(Debug, Default)]
pub(crate) struct Statement {
    /// Name on the server; empty if the statement is parsed each time.
    pub(crate) name: String,
    /// Text of the statement.
    pub(crate) text: String,
    /// Parse, where it is parsed each time; then Bind up to the number of parameters, all formats binary.
    head: Vec<u8>,
    /// Position in `head` of the length of Bind.
    length_at: usize,
    /// Position in `head` of the parameters' formats.
    formats_at: usize,
    params: Vec<Code>,
    /// The end of Bind: the formats of the columns.
    column_formats: Vec<u8>,
    /// True if the statement is parsed each time, and then described too, as libpq does.
    parsed_each_time: bool,
    /// True if the statement is prepared when it is first executed, with values as text both ways.
    pub(crate) is_late: bool,
    columns: Vec<Code>,
}

impl Statement {
    fn new(name: String, text: String) -> Self {
        Self { name, text, ..Self::default() }
    }

    /// Takes a ParameterDescription; false when it is not one.
    pub(crate) fn describe_params(&mut self, body: &[u8]) -> bool {
        let mut reader = Reader(body);
        let Some(count) = reader.array().map(u16::from_be_bytes) else { return false };
        self.params.clear();
        for _ in 0..count {
            let Some(oid) = reader.array() else { return false };
            self.params.push(Code::of_oid(u32::from_be_bytes(oid)));
        }
        true
    }

    /// Takes a RowDescription, or the empty slice for NoData; false when it is not one. Completes the statement.
    pub(crate) fn describe_columns(&mut self, body: &[u8]) -> bool {
        self.columns.clear();
        if !body.is_empty() && !parse_row_description(body, &mut self.columns) {
            return false;
        }
        self.column_formats.clear();
        extend_u16(&mut self.column_formats, self.columns.len() as u16);
        for code in &self.columns {
            extend_u16(&mut self.column_formats, code.format());
        }
        self.head.clear();
        self.parsed_each_time = self.name.is_empty();
        if self.parsed_each_time {
            parse(&mut self.head, "", &self.text);
        }
        self.length_at = self.head.len() + 1;
        self.head.extend_from_slice(&[b'B', 0, 0, 0, 0, 0]);
        cstr(&mut self.head, &self.name);
        extend_u16(&mut self.head, self.params.len() as u16);
        self.formats_at = self.head.len();
        for _ in &self.params {
            extend_u16(&mut self.head, 1);
        }
        extend_u16(&mut self.head, self.params.len() as u16);
        true
    }

    /// Leaves the statement, with this many parameters, to its first execution.
    fn leave_to_execution(&mut self, param_count: usize) {
        self.params = vec![Code::Other; param_count];
        self.describe_columns(&[]);
        self.is_late = true;
    }

    /// Appends Close and Parse. Closing an unknown statement is no error, and several executions may be in flight.
    #[cold]
    fn prepare(&self, out: &mut Vec<u8>) {
        message::close(out, &self.name);
        parse(out, &self.name, &self.text);
    }

    /// Appends what executes it with the values of `params`, from Bind (or Parse) to Execute.
    #[inline]
    pub(crate) fn execute(&self, params: Values<'_>, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&self.head);
        for (position, code) in self.params.iter().enumerate() {
            if !encode(*code, params.get(position), out) {
                out[at + self.formats_at + 2 * position + 1] = 0;
            }
        }
        out.extend_from_slice(&self.column_formats);
        let length_at = at + self.length_at;
        let length = out.len() - length_at;
        patch_length(out, length_at, length);
        if self.parsed_each_time || self.is_late {
            out.extend_from_slice(&DESCRIBE_PORTAL);
        }
        out.extend_from_slice(&EXECUTE);
    }
}

/// The types of the columns that a RowDescription lists; false when it is not one.
pub(crate) fn parse_row_description(body: &[u8], columns: &mut Vec<Code>) -> bool {
    let mut reader = Reader(body);
    let Some(count) = reader.array().map(u16::from_be_bytes) else { return false };
    for _ in 0..count {
        // Name; then table, attribute; then type; then size, modifier, format.
        let described: Option<[u8; 18]> = reader.cstr().and_then(|_| reader.array());
        let Some([_, _, _, _, _, _, a, b, c, d, ..]) = described else { return false };
        columns.push(Code::of_oid(u32::from_be_bytes([a, b, c, d])));
    }
    true
}

/// Appends the columns of a DataRow to `values`; false when it is not a row of these columns.
#[inline]
pub(crate) fn decode_row(body: &[u8], columns: &[Code], values: &mut ValueBuf) -> bool {
    decode_row_with(body, columns, values, decode)
}

/// Reads a row whose values are text.
#[inline(never)]
pub(crate) fn decode_text_row(body: &[u8], columns: &[Code], values: &mut ValueBuf) -> bool {
    decode_row_with(body, columns, values, text_value::decode)
}

#[inline(always)]
fn decode_row_with(
    body: &[u8],
    columns: &[Code],
    values: &mut ValueBuf,
    decode: impl Fn(Code, &[u8], &mut ValueBuf) -> bool,
) -> bool {
    let mut reader = Reader(body);
    if reader.array().map(u16::from_be_bytes) != u16::try_from(columns.len()).ok() {
        return false;
    }
    for code in columns {
        let Some(length) = reader.array().map(i32::from_be_bytes) else { return false };
        if length == -1 {
            values.push(Value::Null);
            continue;
        }
        let Some(bytes) = usize::try_from(length).ok().and_then(|length| reader.take(length)) else { return false };
        if !decode(*code, bytes, values) {
            return false;
        }
    }
    true
}

fn extend_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// An operation kind, prepared.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Name in messages.
    pub(crate) name: String,
    shape: Shape,
    /// See [`SqlOperation`].
    pub(crate) empty_is_not_found: bool,
    /// See [`OpKind::keep_answer`].
    pub(crate) keep_answer: bool,
    /// True if it may share a Sync with operations of other clients.
    pub(crate) joins: bool,
    /// True for a step of another operation type, which may leave a transaction open for the next step.
    pub(crate) is_step: bool,
    /// True if its number of statements is known. A user's text that is sent as it is may hold any number.
    pub(crate) counts_commands: bool,
    /// True if it drops the prepared statements of its session.
    pub(crate) drops_statements: bool,
    /// True if it resets the settings of its session.
    pub(crate) resets_settings: bool,
    /// True if the server does not know its statements: they are prepared with their next execution.
    pub(crate) must_prepare: bool,
    /// Format of its rows.
    pub(crate) format: Format,
    protocol: Protocol,
    /// Number of declared parameters.
    param_count: usize,
    /// Statements, all with the same columns. None with [`Protocol::Simple`].
    pub(crate) statements: Vec<Statement>,
    /// Statements as text. None but with [`Protocol::Simple`].
    texts: Vec<Text>,
}

impl Prepared {
    /// Names the statements of the kind at `position`.
    pub(crate) fn new(position: usize, kind: &OpKind, compiled: SqlOperation, protocol: Protocol) -> Self {
        let name = |number| match protocol {
            Protocol::Prepared => format!("p{position}_{number}"),
            Protocol::Extended | Protocol::Simple => String::new(),
        };
        let (mut statements, mut texts) = (Vec::new(), Vec::new());
        let drops_statements = compiled.texts.iter().any(|text| sql::drops_statements(text));
        let resets_settings = compiled.texts.iter().any(|text| sql::resets_settings(text));
        for (number, text) in compiled.texts.into_iter().enumerate() {
            match protocol {
                Protocol::Prepared | Protocol::Extended => statements.push(Statement::new(name(number), text)),
                Protocol::Simple => texts.push(Text::new(text)),
            }
        }
        Self {
            name: kind.name.clone(),
            shape: compiled.shape,
            empty_is_not_found: compiled.empty_is_not_found,
            keep_answer: kind.keep_answer,
            joins: protocol != Protocol::Simple && compiled.shape == Shape::One && may_share_a_sync(kind),
            is_step: kind.step_of.is_some(),
            counts_commands: protocol != Protocol::Simple || !matches!(kind.call, Call::Sql(_) | Call::SqlText),
            drops_statements,
            resets_settings,
            must_prepare: false,
            format: match (protocol, compiled.shape) {
                (Protocol::Simple, _) | (_, Shape::Text) => Format::Text,
                _ => Format::Binary,
            },
            protocol,
            param_count: kind.params.len(),
            statements,
            texts,
        }
    }

    /// The statements, all described now, take the parameters that the kind declares.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let (count, text) = match (self.statements.first(), self.texts.first()) {
            (Some(statement), _) => (statement.params.len(), &statement.text),
            (None, Some(text)) => (text.param_count(), &text.text),
            (None, None) => return Ok(()),
        };
        if count == self.param_count {
            return Ok(());
        }
        Err(StoreError::usage(format!(
            "operation `{}` declares {} parameters and its statement takes {count}: {text}",
            self.name, self.param_count
        )))
    }

    /// Returns true if it is a step that may change what names mean in later statements.
    pub(crate) fn changes_names(&self) -> bool {
        self.is_step && self.statements.iter().any(|statement| sql::changes_names(&statement.text))
    }

    /// Leaves the statement of a step to its first execution: an earlier step may make what it names.
    pub(crate) fn prepare_late(&mut self) {
        if let [statement] = &mut self.statements[..]
            && self.is_step
            && self.shape == Shape::One
        {
            statement.leave_to_execution(self.param_count);
            self.format = Format::Text;
            self.must_prepare = self.protocol == Protocol::Prepared;
        }
    }

    /// Prepares its statements again with their next execution.
    pub(crate) fn prepare_again(&mut self) {
        self.must_prepare = self.protocol == Protocol::Prepared;
    }

    /// Notes that the server has parsed the statements.
    pub(crate) fn parsed(&mut self) {
        self.must_prepare = false;
    }

    /// Types of the answer's columns.
    #[inline]
    pub(crate) fn columns(&self) -> &[Code] {
        self.statements.first().map_or(&[], |statement| &statement.columns)
    }

    /// Hands every statement of an operation to `each`, by its position and with its parameters; returns how many.
    #[inline(always)]
    fn each(&self, params: Values<'_>, mut each: impl FnMut(usize, Values<'_>)) -> u32 {
        match self.shape {
            Shape::One => {
                each(0, params);
                1
            }
            Shape::Nothing | Shape::Text => 0,
            Shape::Repeated(width) => {
                let rows = params.rows(width);
                let count = rows.len() as u32;
                rows.for_each(|row| each(0, row));
                count
            }
            Shape::Bounds => {
                let (which, used) = self.shape.statement(params);
                each(which, used);
                1
            }
        }
    }

    /// Appends what executes each statement of an operation, without a Sync; returns how many.
    #[inline]
    pub(crate) fn execute(&self, params: Values<'_>, out: &mut Vec<u8>) -> u32 {
        if self.protocol == Protocol::Simple || self.shape == Shape::Text {
            return self.execute_text(params, out);
        }
        if self.must_prepare {
            self.statements.iter().for_each(|statement| statement.prepare(out));
        }
        self.each(params, |which, params| self.statements[which].execute(params, out))
    }

    /// Executes the statements as text.
    fn execute_text(&self, params: Values<'_>, out: &mut Vec<u8>) -> u32 {
        if self.protocol == Protocol::Simple {
            return self.query(params, out);
        }
        // A text that is given, without parameters, its columns as text: it may be part of a pipeline.
        let text = given(params);
        parse(out, "", text);
        frame(out, b'B', |out| out.extend_from_slice(&[0; 8]));
        out.extend_from_slice(&DESCRIBE_PORTAL);
        out.extend_from_slice(&EXECUTE);
        1
    }

    /// Sends a Query: several statements in it are one implicit transaction too.
    fn query(&self, params: Values<'_>, out: &mut Vec<u8>) -> u32 {
        let mut count = 1;
        frame(out, b'Q', |out| {
            match self.shape {
                Shape::Nothing => {}
                Shape::Text => plain(given(params), out),
                _ => {
                    let begin = out.len();
                    count = self.each(params, |which, params| {
                        if out.len() > begin {
                            out.push(b';');
                        }
                        self.texts[which].render(params, out);
                    });
                }
            }
            out.push(0);
        });
        count
    }
}

/// True when the operation may stand in one transaction with others of its sort that belong to other clients: it changes
/// nothing and locks nothing, and its answer is short or is not kept.
fn may_share_a_sync(kind: &OpKind) -> bool {
    kind.step_of.is_none()
        && match &kind.call {
            Call::Records { call: RecordsCall::Get, .. } | Call::Kv(KvCall::Get) => true,
            Call::Sql(text) | Call::SqlRow(text) => {
                !kind.keep_answer && sql::only_selects(text, Some(Dialect::Postgres))
            }
            _ => false,
        }
}

fn given(params: Values<'_>) -> &str {
    match params.get(0) {
        Value::Text(text) => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use postgres_protocol::IsNull;
    use postgres_protocol::message::frontend;

    use super::*;

    /// (int8, text, bytea) -> (int4, numeric)
    fn described(name: &str) -> Statement {
        let mut statement = Statement::new(name.into(), "SELECT …".into());
        assert!(statement.describe_params(&[0, 3, 0, 0, 0, 20, 0, 0, 0, 25, 0, 0, 0, 17]));
        let mut columns = vec![0, 2];
        for oid in [23_u32, 1700] {
            columns.extend_from_slice(b"name\0\0\0\0\0\0\0");
            columns.extend_from_slice(&oid.to_be_bytes());
            columns.extend_from_slice(&[0, 4, 0, 0, 0, 0, 0, 0]);
        }
        assert!(statement.describe_columns(&columns));
        statement
    }

    #[test]
    fn what_is_written_is_what_the_protocol_crate_writes() {
        let mut ours = Vec::new();
        message::startup(&mut ours, &[("user", "käse"), ("database", "d")]);
        message::parse_and_describe(&mut ours, "p0_0", "SELECT 1");
        let mut params = ValueBuf::new();
        for value in [Value::Int(-7), Value::Text("x"), Value::Null] {
            params.push(value);
        }
        described("p0_0").execute(params.values(), &mut ours);
        described("").execute(params.values(), &mut ours);
        params.clear();
        for value in [Value::Text("8"), Value::Bytes(b"\xff"), Value::Bytes(b"")] {
            params.push(value);
        }
        described("p0_0").execute(params.values(), &mut ours);
        ours.extend_from_slice(&message::SYNC);
        message::frame(&mut ours, b'Q', |out| cstr(out, "SELECT 2"));
        ours.extend_from_slice(&message::TERMINATE);

        let mut theirs = BytesMut::new();
        let bind = |name: &str, formats: [i16; 3], values: [Option<&[u8]>; 3], theirs: &mut BytesMut| {
            let value = |value: Option<&[u8]>, buf: &mut BytesMut| {
                value.map_or(Ok(IsNull::Yes), |value| {
                    buf.extend_from_slice(value);
                    Ok(IsNull::No)
                })
            };
            assert!(frontend::bind("", name, formats, values, value, [1, 0], theirs).is_ok());
            if name.is_empty() {
                frontend::describe(b'P', "", theirs).unwrap();
            }
            frontend::execute("", 0, theirs).unwrap();
        };
        frontend::startup_message([("user", "käse"), ("database", "d")], &mut theirs).unwrap();
        frontend::parse("p0_0", "SELECT 1", [], &mut theirs).unwrap();
        frontend::describe(b'S', "p0_0", &mut theirs).unwrap();
        bind("p0_0", [1, 1, 1], [Some(&(-7_i64).to_be_bytes()), Some(b"x"), None], &mut theirs);
        frontend::parse("", "SELECT …", [], &mut theirs).unwrap();
        bind("", [1, 1, 1], [Some(&(-7_i64).to_be_bytes()), Some(b"x"), None], &mut theirs);
        bind("p0_0", [0, 0, 1], [Some(b"8"), Some(b"\xff"), Some(b"")], &mut theirs);
        frontend::sync(&mut theirs);
        frontend::query("SELECT 2", &mut theirs).unwrap();
        frontend::terminate(&mut theirs);
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_row_of_other_columns_is_refused() {
        let statement = described("p0_0");
        let mut values = ValueBuf::new();
        let row = [&[0, 2, 0, 0, 0, 4, 0, 0, 0, 9][..], &[0, 0, 0, 3], b"1.5"].concat();
        assert!(decode_row(&row, &statement.columns, &mut values));
        assert_eq!(values.values().iter().collect::<Vec<_>>(), [Value::Int(9), Value::Text("1.5")]);
        for end in 0..row.len() {
            assert!(!decode_row(&row[..end], &statement.columns, &mut values), "cut to {end}");
        }
        assert!(!decode_row(&[0, 1, 0, 0, 0, 0], &statement.columns, &mut values), "one column of two");
    }
}
