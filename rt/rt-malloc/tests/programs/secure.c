/* Prints whether its memory is checked, by the pattern of new buffers. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	unsigned long long *volatile data = malloc(64);

	puts(data != NULL && data[0] == 0xbaddcafebaddcafeULL ? "checked" : "not checked");
	free(data);
	return 0;
}
