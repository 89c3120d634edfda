//! What a report consists of.

use super::{Chart, Table};

/// A report in the making: filled by a command, given out by [`Report::to_html`] and [`Report::to_text`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    pub(super) command: String,
    pub(super) title: String,
    pub(super) when: String,
    pub(super) server: String,
    pub(super) conclusions: Vec<String>,
    pub(super) key_figures: Vec<(String, String)>,
    pub(super) sections: Vec<Section>,
}

/// A part of a report under its own heading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
}

/// What a section consists of, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A paragraph.
    Prose(String),
    /// Points one below the other.
    List(Vec<String>),
    /// A chart with its title, its legend and its figures.
    Chart(Chart),
    /// A table.
    Table(Table),
    /// Commands, settings to paste, program output: as it is.
    Code(String),
}

impl Report {
    /// A report of `command` (`pgweir lab idle`), titled by the question that it answers.
    pub fn new(command: impl Into<String>, title: impl Into<String>) -> Self {
        Report {
            command: command.into(),
            title: title.into(),
            ..Report::default()
        }
    }

    /// When the run took place.
    pub fn when(&mut self, when: impl Into<String>) -> &mut Self {
        self.when = when.into();
        self
    }

    /// What was measured: PostgreSQL's version, and the machine in a few words.
    pub fn server(&mut self, server: impl Into<String>) -> &mut Self {
        self.server = server.into();
        self
    }

    /// Adds a paragraph to what comes first: what was found, in plain language.
    pub fn conclude(&mut self, text: impl Into<String>) -> &mut Self {
        self.conclusions.push(text.into());
        self
    }

    /// Adds one of the few numbers set large below the conclusion.
    pub fn key_figure(&mut self, value: impl Into<String>, meaning: impl Into<String>) -> &mut Self {
        self.key_figures.push((value.into(), meaning.into()));
        self
    }

    /// Begins a section.
    pub fn section(&mut self, title: impl Into<String>) -> &mut Section {
        self.sections.push(Section {
            title: title.into(),
            blocks: Vec::new(),
        });
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }
}

impl Section {
    /// Adds a paragraph.
    pub fn prose(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Prose(text.into()))
    }

    /// Adds points one below the other.
    pub fn list<S: Into<String>>(&mut self, points: impl IntoIterator<Item = S>) -> &mut Self {
        self.add(Block::List(points.into_iter().map(Into::into).collect()))
    }

    /// Adds a chart.
    pub fn chart(&mut self, chart: impl Into<Chart>) -> &mut Self {
        self.add(Block::Chart(chart.into()))
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.add(Block::Table(table))
    }

    /// Adds text to be shown as it is, lines and all.
    pub fn code(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Code(text.into()))
    }

    fn add(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }
}
