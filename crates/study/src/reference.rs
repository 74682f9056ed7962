//! What a schema says, for editors (JSON Schema) and for readers (a page of tables).

use ebb_scenario::Schema;
use ebb_scenario::schema::{Field, Kind, Presence, Value as Toml};
use serde_json::{Map, Value, json};

use crate::study::Study;

impl Study {
    /// Its scenario as a JSON Schema, draft 2020-12, for editors of TOML; `None` where it is not declared.
    pub fn json_schema(&self) -> Option<Value> {
        let scenario = |schema: fn() -> Schema| {
            let mut table = Value::Object(of_table(&schema()));
            // Every scenario may say its seed.
            let about = "Seed of all random numbers.";
            table["properties"]["seed"] =
                json!({ "type": "integer", "minimum": 0, "description": about });
            table
        };
        let first = scenario(self.schema?);
        let whole = match self.other.map(scenario) {
            Some(other) => json!({ "anyOf": [first, other] }),
            None => first,
        };
        Some(titled(&self.name(), whole))
    }

    /// Its scenario as a page in Markdown; `None` where it is not declared.
    pub fn reference(&self) -> Option<String> {
        let schema = self.schema?();
        let seed = " Every scenario may have `seed`, a whole number.";
        let mut page = page(&self.name(), self.about, seed, &schema);
        if let Some(other) = self.other.map(|other| other()) {
            page += &format!("\n# Or instead\n\n{}\n", other.about);
            add_table(&mut page, "", "", &other);
        }
        Some(page)
    }
}

/// A file that is no scenario, such as a daemon's configuration, as a JSON Schema.
pub fn json_schema_of(name: &str, schema: &Schema) -> Value {
    titled(name, Value::Object(of_table(schema)))
}

/// A file that is no scenario as a page in Markdown.
pub fn reference_of(name: &str, about: &str, schema: &Schema) -> String {
    page(name, about, "", schema)
}

fn titled(name: &str, mut schema: Value) -> Value {
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = format!("ebb {name}").into();
    schema
}

fn page(name: &str, about: &str, further: &str, schema: &Schema) -> String {
    let mut page = format!(
        "# ebb {name}\n\n{about}.\n\nGenerated from the declarations in the source.{further}\n"
    );
    add_table(&mut page, "", "", schema);
    page
}

fn of_table(schema: &Schema) -> Map<String, Value> {
    let mut properties = Map::new();
    for field in &schema.fields {
        properties.insert(field.name.into(), Value::Object(of_field(field)));
    }
    let required = schema.fields.iter().filter(|field| field.presence == Presence::Required);
    let required: Vec<&str> = required.map(|field| field.name).collect();
    let table = json!({
        "type": "object",
        "description": schema.about,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    table.as_object().cloned().unwrap_or_default()
}

fn of_field(field: &Field) -> Map<String, Value> {
    let mut out = of_kind(&field.kind, field);
    let unit = if field.unit.is_empty() { String::new() } else { format!(" [{}]", field.unit) };
    out.insert("description".into(), format!("{}{unit}", field.about).into());
    if let Presence::Default(default) = &field.presence {
        out.insert("default".into(), serde_json::to_value(default).unwrap_or_default());
    }
    out
}

fn of_kind(kind: &Kind, field: &Field) -> Map<String, Value> {
    let value = match kind {
        Kind::Any => json!({}),
        Kind::Number | Kind::Whole => {
            let mut number = Map::new();
            let whole = matches!(kind, Kind::Whole);
            number.insert("type".into(), if whole { "integer" } else { "number" }.into());
            let limits = [
                ("minimum", field.least),
                ("exclusiveMinimum", field.above),
                ("maximum", field.most),
                ("exclusiveMaximum", field.below),
            ];
            for (name, limit) in limits {
                number.extend(limit.map(|limit| (name.to_owned(), plain(limit))));
            }
            if whole && field.least.is_none() && field.above.is_none() {
                number.insert("minimum".into(), 0.into());
            }
            Value::Object(number)
        }
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Text => json!({ "type": "string" }),
        Kind::Choice(choices) => {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            json!({ "type": "string", "enum": words })
        }
        Kind::List(inner, count) => {
            let mut list = json!({ "type": "array", "items": of_kind(inner, field) });
            if let Some(count) = count {
                (list["minItems"], list["maxItems"]) = ((*count).into(), (*count).into());
            }
            list
        }
        Kind::Tuple(kinds) => {
            let items: Vec<_> = kinds.iter().map(|kind| of_kind(kind, field)).collect();
            json!({ "type": "array", "minItems": items.len(), "maxItems": items.len(), "prefixItems": items })
        }
        Kind::Map(inner) => {
            json!({ "type": "object", "additionalProperties": of_kind(inner, field) })
        }
        Kind::Table(schema) => Value::Object(of_table(schema)),
        Kind::Tagged(tag, shapes) => {
            let shape = |(word, schema): &(&str, Schema)| {
                let mut table = Value::Object(of_table(schema));
                table["properties"][tag] = json!({ "const": word, "description": schema.about });
                table["required"].as_array_mut().expect("a list").push((*tag).into());
                table
            };
            json!({ "oneOf": shapes.iter().map(shape).collect::<Vec<_>>() })
        }
        Kind::Either(kinds) => {
            json!({ "anyOf": kinds.iter().map(|kind| of_kind(kind, field)).collect::<Vec<_>>() })
        }
    };
    value.as_object().cloned().unwrap_or_default()
}

/// A limit without a point where it needs none.
fn plain(limit: f64) -> Value {
    let whole = limit as i64;
    if whole as f64 == limit { whole.into() } else { limit.into() }
}

fn add_table(page: &mut String, title: &str, path: &str, schema: &Schema) {
    if !title.is_empty() {
        *page += &format!("\n## `{title}`\n\n{}\n", schema.about);
    }
    if schema.fields.is_empty() {
        return;
    }
    *page += "\n\
         | setting | type | range | default | description |\n\
         |---|---|---|---|---|\n";
    let mut inner = Vec::new();
    for field in &schema.fields {
        let path =
            if path.is_empty() { field.name.to_owned() } else { format!("{path}.{}", field.name) };
        let left_out = match &field.presence {
            Presence::Required => "required".to_owned(),
            Presence::Optional => String::new(),
            Presence::Default(Toml::Table(_)) => "its defaults".to_owned(),
            Presence::Default(default) => format!("`{default}`"),
        };
        let unit = if field.unit.is_empty() { String::new() } else { format!(", {}", field.unit) };
        *page += &format!(
            "| `{path}` | {}{unit} | {} | {left_out} | {} |\n",
            kind_in_words(&field.kind),
            field.range(),
            about(field)
        );
        tables_of(path, &field.kind, &mut inner);
    }
    for (title, path, table) in inner {
        add_table(page, &title, &path, table);
    }
}

/// The tables inside a setting, with their titles and paths.
fn tables_of<'a>(path: String, kind: &'a Kind, into: &mut Vec<(String, String, &'a Schema)>) {
    match kind {
        Kind::Table(table) => into.push((path.clone(), path, table)),
        Kind::Tagged(tag, shapes) => {
            let title = |word| format!("{path}.{tag} = \"{word}\"");
            into.extend(shapes.iter().map(|(word, table)| (title(word), path.clone(), table)));
        }
        Kind::List(item, _) => tables_of(format!("{path}[]"), item, into),
        Kind::Map(item) => tables_of(format!("{path}.*"), item, into),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| tables_of(path.clone(), kind, into)),
        _ => {}
    }
}

fn kind_in_words(kind: &Kind) -> String {
    match kind {
        Kind::Any => "see its table".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Whole => "whole number".to_owned(),
        Kind::Switch => "true or false".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Choice(choices) => {
            choices.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::List(inner, Some(count)) => format!("{count} x {}", kind_in_words(inner)),
        Kind::List(inner, None) => format!("list of {}", kind_in_words(inner)),
        Kind::Tuple(kinds) => {
            format!("[{}]", kinds.iter().map(kind_in_words).collect::<Vec<_>>().join(", "))
        }
        Kind::Map(inner) => format!("table of {}", kind_in_words(inner)),
        Kind::Table(_) | Kind::Tagged(..) => "table".to_owned(),
        Kind::Either(kinds) => kinds.iter().map(kind_in_words).collect::<Vec<_>>().join(" or "),
    }
}

/// The sentence, and what each word of a choice means.
fn about(field: &Field) -> String {
    let mut about = field.about.to_owned();
    let kind = if let Kind::List(inner, _) = &field.kind { inner } else { &field.kind };
    if let Kind::Choice(choices) = kind {
        for (word, meaning) in choices.iter().filter(|(_, meaning)| !meaning.is_empty()) {
            about += &format!(" `{word}`: {}.", meaning.trim_end_matches('.'));
        }
    }
    about.replace('|', "\\|")
}
