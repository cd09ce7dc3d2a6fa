// The first screen: the steps as lanes, and clicks on the parts of a step that lead to tables and events.

import "./first_screen/lanes.js";
import "./first_screen/parts.js";
