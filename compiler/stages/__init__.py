"""From a target to artefacts in a build folder, stage by stage."""
