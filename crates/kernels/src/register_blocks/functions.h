// Each thread sums a block of rows and columns, in runs that lie next to each other in the tiles.
#define BLOCK_ROWS (ROWS / SIDE)
#define BLOCK_COLUMNS (COLUMNS / SIDE)

// Neighbours that a thread takes from a tile at once.
struct alignas(sizeof(Number) * ROW_RUN) RowRun { Number numbers[ROW_RUN]; };
struct alignas(sizeof(Number) * COLUMN_RUN) ColumnRun { Number numbers[COLUMN_RUN]; };

// Where the numbers of this thread's block begin, of all lines of a tile.
template <u32 RUN> FUNCTION u32 block_line(u32 place, u32 index) {
    return index / RUN * (SIDE * RUN) + place * RUN + index % RUN;
}
