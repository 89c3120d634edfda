//! What to read into shared_buffers, in which order, and how much of it fits.
//!
//! The order is the article's: indexes first, because every look-up passes through them and they are small, then tables.
//! Within each, those with the most accesses per block come first. What fits only in part is taken from its end: rows are
//! added there, and new rows are asked for most.

use super::relation::{Relation, RelationKind};
use serde::{Deserialize, Serialize};

/// Share of shared_buffers that is filled. The rest stays for catalogs and for what runs meanwhile.
const FILL_SHARE: f64 = 0.95;

/// One relation to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its object identifier.
    pub oid: u32,
    /// Its name, as people know it.
    pub name: String,
    /// Its kind.
    pub kind: RelationKind,
    /// First block to read.
    pub first_block: u64,
    /// Number of blocks to read.
    pub blocks: u64,
    /// Blocks of the whole relation.
    pub relation_blocks: u64,
}

impl Step {
    /// Whether all of the relation is read.
    pub fn is_whole(&self) -> bool {
        self.blocks == self.relation_blocks
    }
}

/// What will be read, and what will not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// Names of relations for which no room is left.
    pub left_out: Vec<String>,
    /// Blocks that may be filled.
    pub room_blocks: u64,
}

impl Plan {
    /// Blocks of all steps.
    pub fn blocks(&self) -> u64 {
        self.steps.iter().map(|step| step.blocks).sum()
    }
}

/// How many blocks of a pool of this many buffers are filled.
pub fn room(buffers: u64) -> u64 {
    (buffers as f64 * FILL_SHARE) as u64
}

/// Plans for as many blocks as there is room.
pub fn plan(relations: &[Relation], room_blocks: u64) -> Plan {
    let mut wanted: Vec<&Relation> = relations.iter().filter(|r| !r.system && r.blocks > 0).collect();
    wanted.sort_by(|a, b| {
        let kind = a.kind.cmp(&b.kind);
        let density = b.density().total_cmp(&a.density());
        // Without statistics the small ones come first, so that as many as possible are whole.
        kind.then(density)
            .then(a.blocks.cmp(&b.blocks))
            .then(a.name.cmp(&b.name))
    });
    let mut plan = Plan {
        room_blocks,
        ..Plan::default()
    };
    let mut left = room_blocks;
    for relation in wanted {
        let blocks = relation.blocks.min(left);
        if blocks == 0 {
            plan.left_out.push(relation.shown_name());
            continue;
        }
        left -= blocks;
        plan.steps.push(Step {
            oid: relation.oid,
            name: relation.shown_name(),
            kind: relation.kind,
            first_block: relation.blocks - blocks,
            blocks,
            relation_blocks: relation.blocks,
        });
    }
    plan
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A relation of which nothing is cached.
    pub(in super::super) fn relation(name: &str, kind: RelationKind, blocks: u64, accesses: u64) -> Relation {
        Relation {
            oid: 1,
            name: name.to_owned(),
            table: name.to_owned(),
            kind,
            system: false,
            blocks,
            accesses,
            buffered_blocks: None,
            dirty_blocks: None,
            usage_mean: None,
            page_cache_bytes: None,
        }
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.steps.iter().map(|step| step.name.as_str()).collect()
    }

    #[test]
    fn indexes_first_then_by_accesses_per_block() {
        let relations = [
            relation("hot_table", RelationKind::Table, 100, 90_000),
            relation("cold_index", RelationKind::Index, 10, 0),
            relation("cold_table", RelationKind::Table, 10, 50),
            relation("hot_index", RelationKind::Index, 40, 4_000),
            relation("hot_toast", RelationKind::Toast, 1, 1_000_000),
        ];
        let plan = plan(&relations, 1000);
        assert_eq!(
            names(&plan),
            ["hot_index", "cold_index", "hot_table", "cold_table", "hot_toast"]
        );
        assert!(plan.steps.iter().all(Step::is_whole) && plan.left_out.is_empty());
        assert_eq!(plan.blocks(), 161);
    }

    #[test]
    fn what_does_not_fit_is_taken_from_its_end_and_the_rest_is_named() {
        let relations = [
            relation("t_pkey", RelationKind::Index, 30, 10),
            relation("t", RelationKind::Table, 100, 1000),
            relation("other", RelationKind::Table, 5, 0),
        ];
        let plan = plan(&relations, 80);
        assert_eq!(names(&plan), ["t_pkey", "t"]);
        assert_eq!(
            (
                plan.steps[1].first_block,
                plan.steps[1].blocks,
                plan.steps[1].is_whole()
            ),
            (50, 50, false)
        );
        assert_eq!(plan.left_out, ["other"]);
        assert_eq!(plan.blocks(), 80);
    }

    #[test]
    fn empty_and_system_relations_are_not_read() {
        let mut catalog = relation("pg_catalog.pg_class", RelationKind::Table, 14, 99);
        catalog.system = true;
        let plan = plan(&[relation("empty", RelationKind::Table, 0, 5), catalog], 100);
        assert!(plan.steps.is_empty() && plan.left_out.is_empty());
        assert_eq!(room(16384), 15564);
    }
}
