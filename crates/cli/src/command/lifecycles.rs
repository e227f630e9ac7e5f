//! `wardroom lifecycles`.

use clap::{Args, ValueEnum};
use wardroom_core::{
    diagram,
    lifecycles::{Lifecycle, all},
};

use crate::{
    exit::{Code, failure},
    output,
    table::{Heads, Writer},
};

/// Shows the states of every kind and the moves between them. Needs no server.
#[derive(Args)]
pub(crate) struct Lifecycles {
    /// Only one: node, gpu-node, run, satellite or device-update.
    #[arg(value_name = "KIND")]
    kind: Option<String>,
    /// The output format.
    #[arg(short, long, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Drawn,
}

/// How lifecycles are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Drawn {
    /// A line for each move.
    Table,
    /// A state diagram for Mermaid.
    Mermaid,
    /// A graph for Graphviz.
    Dot,
    /// A picture, for a file: all lifecycles below each other, or the one of the kind.
    Svg,
    /// JSON, as the API gives it.
    Json,
}

impl Lifecycles {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut tables = all();
        if let Some(kind) = &self.kind {
            let names: Vec<_> = tables.iter().map(|table| table.name).collect();
            tables.retain(|table| table.name == kind || table.name == kind.trim_end_matches('s'));
            if tables.is_empty() {
                let message = format!("there is no lifecycle of {kind:?}: give one of {}", names.join(", "));
                return Err(failure(Code::NotFound, message));
            }
        }
        match self.output {
            Drawn::Json => output::json(&tables),
            Drawn::Mermaid => tables.iter().try_for_each(|table| output::print(&mermaid(table))),
            Drawn::Dot => tables.iter().try_for_each(|table| output::print(&dot(table))),
            Drawn::Svg => output::print(&svg(&tables)),
            Drawn::Table => {
                let rows: Vec<_> = tables.iter().flat_map(rows).collect();
                Writer::start(&["KIND", "FROM", "TO", "ON", "BY", "WHEN"], &rows, Heads::Shown).map(drop)
            }
        }
    }
}

fn rows(table: &Lifecycle) -> Vec<Vec<String>> {
    let row = |row: &wardroom_core::lifecycles::MoveView| {
        [table.name, row.from, row.to, row.on, row.by.as_str(), row.when].map(str::to_owned).into()
    };
    table.moves.iter().map(row).collect()
}

fn mermaid(table: &Lifecycle) -> String {
    let mut text = format!("---\ntitle: {}\n---\nstateDiagram-v2\n", table.name);
    for state in table.states.iter().filter(|state| state.initial) {
        text.push_str(&format!("    [*] --> {}\n", state.name));
    }
    for row in &table.moves {
        text.push_str(&format!("    {} --> {}: {}\n", row.from, row.to, row.on));
    }
    for state in table.states.iter().filter(|state| state.terminal) {
        text.push_str(&format!("    {} --> [*]\n", state.name));
    }
    text
}

fn dot(table: &Lifecycle) -> String {
    let mut text = format!("digraph \"{}\" {{\n", table.name);
    for state in &table.states {
        let shape = if state.terminal { "doublecircle" } else { "box" };
        text.push_str(&format!("    \"{}\" [shape={shape}];\n", state.name));
    }
    for row in &table.moves {
        text.push_str(&format!("    \"{}\" -> \"{}\" [label=\"{}\"];\n", row.from, row.to, row.on));
    }
    text + "}\n"
}

fn svg(tables: &[Lifecycle]) -> String {
    let drawn: Vec<_> = tables.iter().filter_map(|table| diagram::of(table.name)).collect();
    match drawn.as_slice() {
        [one] => one.for_file(),
        several => diagram::for_one_file(several),
    }
}

#[cfg(test)]
mod tests {
    use wardroom_core::lifecycles::all;

    use super::{dot, mermaid, rows, svg};

    /// Every move is in every drawing.
    #[test]
    fn a_drawing_has_every_move() {
        for table in all() {
            let (mermaid, dot) = (mermaid(&table), dot(&table));
            assert_eq!(rows(&table).len(), table.moves.len());
            for row in &table.moves {
                assert!(mermaid.contains(&format!("    {} --> {}: {}\n", row.from, row.to, row.on)));
                assert!(dot.contains(&format!("\"{}\" -> \"{}\" [label=\"{}\"]", row.from, row.to, row.on)));
            }
            assert!(mermaid.contains("[*] --> "), "{mermaid}");
        }
    }

    #[test]
    fn a_picture_has_every_state_of_every_lifecycle_that_is_asked_for() {
        let tables = all();
        let whole = svg(&tables);
        for (at, table) in tables.iter().enumerate() {
            let one = svg(&tables[at..=at]);
            for picture in [&whole, &one] {
                assert!(picture.starts_with("<svg ") && picture.matches("<svg").count() == 1, "{picture}");
                for state in &table.states {
                    assert!(picture.contains(&format!(">{}</text>", state.name)), "{}", state.name);
                }
            }
            // One alone needs no name above it.
            assert!(whole.contains(&format!(">{}</text>", table.name)));
            assert!(!one.contains(&format!(">{}</text>", table.name)));
        }
    }
}
